pub(crate) mod peer;

use super::*;
use farside_protocol::limits::VALUE_LEN_MAX;
use farside_protocol::wire::{Condition, PARTING, Response};
use farside_protocol::{ErrorKind, Key};
use peer::{accept, listen, welcome};
use std::io::{Read, Write};
use std::net::Shutdown;

fn open(address: &Address) -> Channel {
    let thread = Arc::new(IoThread::start().unwrap());
    Channel::connect_blocking(&thread, Options::new(address.clone())).unwrap().0
}

fn key() -> Key<'static> {
    Key::new(b"key").unwrap()
}

fn get() -> Request<'static> {
    Request::Get { key: key() }
}

fn put(value: &[u8]) -> Request<'_> {
    Request::Put { key: key(), value, expires_at_ms: 0, condition: Condition::Always }
}

fn within(milliseconds: u64) -> Instant {
    Instant::now() + Duration::from_millis(milliseconds)
}

/// Far beyond what any test takes.
fn patient() -> Instant {
    within(20_000)
}

fn counter(answer: &Answer) -> i64 {
    match answer.response().unwrap() {
        Response::Counter { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

fn count(value: i64) -> Response<'static> {
    Response::Counter { value, version: farside_protocol::Version::from_bits(1), hint: None }
}

#[test]
fn pipelined_calls_get_their_own_answers() {
    let (address, server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        // All are sent before the first is answered.
        let requests: Vec<_> = (0..1000).map(|_| peer.hear().unwrap()).collect();
        for (id, kind, body) in requests {
            match Request::decode(kind, &body).unwrap() {
                Request::FetchAdd { delta, .. } => peer.say(id, &count(delta)),
                other => panic!("{other:?}"),
            }
        }
        assert!(peer.hear().is_none(), "the connection ends with the channel");
    });
    let channel = open(&address);
    let calls: Vec<_> =
        (0..1000).map(|delta| channel.call(&Request::FetchAdd { key: key(), delta }, patient())).collect();
    for (delta, call) in calls.into_iter().enumerate() {
        assert_eq!(counter(&block_on(call).unwrap()), delta as i64);
    }
    drop(channel);
    server.join().unwrap();
}

#[test]
fn many_threads_share_a_channel() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        while let Some((id, kind, body)) = peer.hear() {
            let Ok(Request::FetchAdd { delta, .. }) = Request::decode(kind, &body) else { panic!() };
            peer.say(id, &count(delta));
        }
    });
    let channel = open(&address);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let channel = channel.clone();
            scope.spawn(move || {
                for delta in thread * 1000..thread * 1000 + 200 {
                    let answer = channel.call_blocking(&Request::FetchAdd { key: key(), delta }, patient());
                    assert_eq!(counter(&answer.unwrap()), delta);
                }
            });
        }
    });
}

#[test]
fn the_largest_value_goes_and_comes() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        let (id, kind, body) = peer.hear().unwrap();
        let Ok(Request::Put { value, .. }) = Request::decode(kind, &body) else { panic!() };
        let version = farside_protocol::Version::from_bits(1);
        peer.say(id, &Response::Value { version, expires_at_ms: 0, flags: 0, value });
    });
    let channel = open(&address);
    let value: Vec<u8> = (0..VALUE_LEN_MAX).map(|i| (i * 7 / 3) as u8).collect();
    let answer = channel.call_blocking(&put(&value), patient()).unwrap();
    match answer.response().unwrap() {
        Response::Value { value: returned, .. } => assert!(returned == value),
        other => panic!("{other:?}"),
    }
    let error = channel.call_blocking(&put(&vec![0; VALUE_LEN_MAX + 1]), patient()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
fn an_error_answered_is_the_calls_error() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        for _ in 0..2 {
            let (id, ..) = peer.hear().unwrap();
            peer.say(id, &Response::Error { kind: ErrorKind::Full, message: "no room; delete something" });
        }
        peer.hear()
    });
    let channel = open(&address);
    let error = channel.call_blocking(&put(b"v"), patient()).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Full, "no room; delete something"));
    assert_eq!(channel.take_post_failure(), None);
    channel.post(&put(b"v"), patient()).unwrap();
    let failure = wait_for(|| channel.take_post_failure());
    assert_eq!((failure.0, failure.1.kind()), (1, ErrorKind::Full));
    assert_eq!(channel.take_post_failure(), None);
}

#[test]
fn a_server_that_ends_the_connection_is_quoted() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        let (first, ..) = peer.hear().unwrap();
        peer.hear().unwrap();
        peer.say(first, &count(1));
        peer.say(PARTING, &Response::Error { kind: ErrorKind::Unavailable, message: "silent for too long" });
        peer.hear()
    });
    let channel = open(&address);
    let (first, second) = (channel.call(&get(), patient()), channel.call(&get(), patient()));
    assert_eq!(counter(&block_on(first).unwrap()), 1);
    let error = block_on(second).unwrap_err();
    assert!(error.to_string().contains("the server ended it: silent for too long"), "{error}");
}

fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = patient();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_silent_server_ends_calls_at_their_deadlines() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        let (first, ..) = peer.hear().unwrap();
        peer.hear().unwrap();
        // The third comes after the others have ended; late answers then find nobody and do no harm.
        let (third, ..) = peer.hear().unwrap();
        peer.say(first, &Response::Absent);
        peer.say(first + 1, &Response::Absent);
        peer.say(third, &count(5));
        peer.hear()
    });
    let channel = open(&address);
    let began = Instant::now();
    let (lookup, change) = (channel.call(&get(), within(50)), channel.call(&put(b"v"), within(50)));
    assert_eq!(block_on(lookup).unwrap_err().kind(), ErrorKind::Deadline);
    assert_eq!(block_on(change).unwrap_err().kind(), ErrorKind::Indeterminate);
    assert!((50..2000).contains(&(began.elapsed().as_millis() as u64)), "{:?}", began.elapsed());
    assert_eq!(counter(&channel.call_blocking(&get(), patient()).unwrap()), 5);
    let past = Instant::now();
    assert_eq!(channel.call_blocking(&put(b"v"), past).unwrap_err().kind(), ErrorKind::Deadline);
}

#[test]
fn a_server_that_stops_reading_never_sees_what_expired_before_it_was_sent() {
    let (resume, resumed) = std::sync::mpsc::channel();
    let (address, server) = listen(move |listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        resumed.recv().unwrap();
        let (id, ..) = peer.hear().unwrap();
        peer.say(id, &Response::Absent);
        let (id, _, body) = peer.hear().unwrap();
        peer.say(id, &Response::Absent);
        body
    });
    let channel = open(&address);
    let large = vec![1; VALUE_LEN_MAX];
    // More than the sockets hold: the writer is stuck with it, and what comes after waits.
    let stuck = channel.call(&put(&large), patient());
    std::thread::sleep(Duration::from_millis(50));
    let expired = channel.call_blocking(&put(b"expired"), within(50)).unwrap_err();
    assert_eq!(expired.kind(), ErrorKind::Deadline, "{expired}");
    let next = channel.call(&get(), patient());
    resume.send(()).unwrap();
    block_on(stuck).unwrap();
    block_on(next).unwrap();
    assert_eq!(server.join().unwrap(), b"key");
}

#[test]
fn requests_that_nobody_takes_are_refused_before_they_fill_the_memory() {
    let (_until_the_end, end) = std::sync::mpsc::channel::<()>();
    let (address, _server) = listen(move |listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        let _ = end.recv();
    });
    let channel = open(&address);
    let large = vec![1; VALUE_LEN_MAX];
    let taken = (0..40).take_while(|_| channel.post(&put(&large), patient()).is_ok()).count();
    assert!((16..20).contains(&taken), "{taken} requests of 16 MiB");
    let error = channel.call_blocking(&get(), patient()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("256 MiB"), "{error}");
}

#[test]
fn a_dropped_call_loses_only_its_answer() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        while let Some((id, ..)) = peer.hear() {
            peer.say(id, &count(id as i64));
        }
    });
    let channel = open(&address);
    for _ in 0..100 {
        drop(channel.call(&get(), patient()));
        let mut polled = Box::pin(channel.call(&get(), patient()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = polled.as_mut().poll(&mut context);
    }
    assert_eq!(counter(&channel.call_blocking(&get(), patient()).unwrap()), 200);
}

#[test]
fn a_broken_connection_fails_what_was_outstanding_and_later_calls_connect_again() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        peer.hear().unwrap();
        peer.hear().unwrap();
        drop(peer);
        let mut peer = accept(listener);
        peer.open(Welcome { session: 2, ..welcome() });
        while let Some((id, ..)) = peer.hear() {
            peer.say(id, &count(9));
        }
    });
    let channel = open(&address);
    assert_eq!(channel.welcome().session, 1);
    let (lookup, change) = (channel.call(&get(), patient()), channel.call(&put(b"v"), patient()));
    assert_eq!(block_on(lookup).unwrap_err().kind(), ErrorKind::Unavailable);
    let error = block_on(change).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(error.to_string().contains("the server closed it"), "{error}");
    assert!(!channel.is_up());
    // Calls within the backoff fail at once.
    let answer = wait_for(|| channel.call_blocking(&get(), patient()).ok());
    assert_eq!(counter(&answer), 9);
    assert_eq!((channel.reconnects(), channel.welcome().session, channel.is_up()), (1, 2, true));
}

#[test]
fn a_server_that_is_gone_is_not_stormed_and_is_found_when_it_is_back() {
    let (address, server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        listener.local_addr().unwrap()
    });
    let channel = open(&address);
    let local = server.join().unwrap();
    wait_for(|| (!channel.is_up()).then_some(()));
    let (mut calls, began) = (0u32, Instant::now());
    while began.elapsed() < Duration::from_millis(300) {
        let error = channel.call_blocking(&put(b"v"), patient()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        calls += 1;
    }
    assert!(calls > 100, "calls in the backoff must fail at once: {calls}");
    let error = channel.call_blocking(&get(), patient()).unwrap_err().to_string();
    assert!(error.contains("nothing listens") && error.contains("start farside-server"), "{error}");
    let back = std::net::TcpListener::bind(local).unwrap();
    let server = std::thread::spawn(move || {
        let mut peer = accept(&back);
        peer.open(welcome());
        while let Some((id, ..)) = peer.hear() {
            peer.say(id, &Response::Pong);
        }
    });
    wait_for(|| channel.call_blocking(&Request::Ping, patient()).ok());
    channel.close();
    server.join().unwrap();
    let error = channel.call_blocking(&get(), patient()).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}

#[test]
fn nonsense_from_the_server_breaks_the_connection() {
    let unknown_id = {
        let mut frame = Vec::new();
        Response::Pong.encode(99, &mut frame);
        frame
    };
    for (bytes, expected) in [
        (vec![0xff; 64], "nonsense"),
        (unknown_id, "answered a request 99 that was never made"),
        (vec![0; 8], "closed it"),
    ] {
        let (address, _server) = listen(move |listener| {
            let mut peer = accept(listener);
            peer.open(welcome());
            peer.hear().unwrap();
            peer.stream.write_all(&bytes).unwrap();
            peer.stream.shutdown(Shutdown::Write).unwrap();
            let _ = peer.stream.read(&mut [0; 64]);
        });
        let error = open(&address).call_blocking(&put(b"v"), patient()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// What becomes of a call whose server says `answer`, made for the request's id, and hangs up.
fn answered(answer: impl FnOnce(u64) -> Vec<u8> + Send + 'static) -> Result<Answer, CallError> {
    let (address, _server) = listen(move |listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        let (id, ..) = peer.hear().unwrap();
        peer.stream.write_all(&answer(id)).unwrap();
        peer.stream.shutdown(Shutdown::Write).unwrap();
        let _ = peer.stream.read(&mut [0; 64]);
    });
    open(&address).call_blocking(&put(b"v"), patient())
}

#[test]
fn an_answer_cut_short_is_no_answer() {
    let frame = |id| {
        let mut frame = Vec::new();
        count(7).encode(id, &mut frame);
        frame
    };
    assert_eq!(counter(&answered(frame).unwrap()), 7);
    for len in 0..frame(1).len() {
        let error = answered(move |id| frame(id)[..len].to_vec()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{len}: {error}");
    }
}

#[test]
fn random_bytes_in_place_of_an_answer_end_the_call() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..100 {
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let len = random() as usize % 300;
        let bytes = (0..len).map(|_| random() as u8).collect();
        let error = answered(move |_| bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    }
}

#[test]
fn an_answer_with_a_malformed_body_is_the_calls_error_alone() {
    let (address, _server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(welcome());
        let (id, ..) = peer.hear().unwrap();
        let mut frame = Vec::new();
        Response::Deleted { existed: true }.encode(id, &mut frame);
        *frame.last_mut().unwrap() = 7;
        peer.stream.write_all(&frame).unwrap();
        let (id, ..) = peer.hear().unwrap();
        peer.say(id, &Response::Pong);
        peer.hear()
    });
    let channel = open(&address);
    let answer = channel.call_blocking(&get(), patient()).unwrap();
    assert_eq!(CallError::from(answer.response().unwrap_err()).kind(), ErrorKind::Incompatible);
    channel.call_blocking(&Request::Ping, patient()).unwrap();
}

#[test]
fn an_idle_session_is_kept_alive_at_a_third_of_its_lease() {
    let (address, server) = listen(|listener| {
        let mut peer = accept(listener);
        peer.open(Welcome { lease_ms: 300, ..welcome() });
        (0..3)
            .map(|_| {
                let began = Instant::now();
                let (id, kind, body) = peer.hear().unwrap();
                assert_eq!(Request::decode(kind, &body), Ok(Request::Ping));
                peer.say(id, &Response::Pong);
                began.elapsed()
            })
            .max()
            .unwrap()
    });
    let _channel = open(&address);
    let longest = server.join().unwrap();
    assert!(longest < Duration::from_millis(300), "the lease would have ended: {longest:?}");
}

mod refused {
    //! What a client is told when there is no session to be had.

    use super::*;

    fn refusal(options: Options) -> ConnectError {
        let thread = Arc::new(IoThread::start().unwrap());
        Channel::connect_blocking(&thread, options).unwrap_err()
    }

    /// How a client takes a server that reads the hello, sends `bytes` and hangs up.
    fn after(bytes: impl Into<Vec<u8>>) -> ConnectError {
        let bytes = bytes.into();
        let (address, _server) = listen(move |listener| {
            let mut peer = accept(listener);
            peer.hear_hello();
            peer.stream.write_all(&bytes).unwrap();
        });
        refusal(Options::new(address))
    }

    fn greeting(response: &Response<'_>) -> Vec<u8> {
        let mut bytes = farside_protocol::wire::PREFACE.to_vec();
        response.encode(0, &mut bytes);
        bytes
    }

    #[test]
    fn nothing_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
        drop(listener);
        for address in [address, "unix:/nonexistent/farside.sock".parse().unwrap()] {
            let error = refusal(Options::new(address.clone()));
            assert!(matches!(error, ConnectError::NothingListens { .. }), "{error}");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let text = error.to_string();
            assert!(text.contains(&address.to_string()) && text.contains("start farside-server"), "{text}");
        }
    }

    #[test]
    fn a_host_that_does_not_exist() {
        let error = refusal(Options::new("no-such-host.invalid:7471".parse().unwrap()));
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    }

    #[test]
    fn something_else_listens() {
        for (bytes, shown) in [
            ("HTTP/1.1 400 Bad Request\r\n", "`HTTP/1.1`"),
            ("-ERR unknown command", "`-`"),
            ("no", "`no`"),
            ("FARSIDE?", "`FARSIDE?`"),
        ] {
            let error = after(bytes);
            match &error {
                // What arrives in the first read is the network's choice.
                ConnectError::Foreign { first_bytes, .. } => {
                    assert!(first_bytes.starts_with(shown.trim_end_matches('`')), "{error}");
                }
                // A version is one byte; this one claims to be number 63.
                ConnectError::OtherVersion { theirs: b'?', .. } => assert_eq!(bytes, "FARSIDE?"),
                _ => panic!("{error}"),
            }
            assert_eq!(error.kind(), ErrorKind::Incompatible);
        }
    }

    #[test]
    fn another_version() {
        let error = after("FARSIDE\x02");
        assert!(matches!(error, ConnectError::OtherVersion { theirs: 2, .. }), "{error}");
        assert!(error.to_string().contains("speaks wire version 2, this client 1"), "{error}");
    }

    #[test]
    fn a_server_that_hangs_up() {
        let error = after("");
        assert!(matches!(error, ConnectError::Closed { .. }), "{error}");
        let error = after(&greeting(&Response::Welcome(welcome()))[..40]);
        assert!(matches!(error, ConnectError::Closed { .. }), "{error}");
    }

    #[test]
    fn a_server_that_is_silent() {
        let (address, _server) = listen(|listener| {
            let mut peer = accept(listener);
            peer.hear_hello();
            peer.hear()
        });
        let began = Instant::now();
        let options = Options { connect_timeout: Duration::from_millis(100), ..Options::new(address) };
        let error = refusal(options);
        assert!(matches!(error, ConnectError::Silent { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn a_wrong_or_missing_token() {
        let message = "the token is wrong; give the one in the server's token file";
        let error = after(greeting(&Response::Error { kind: ErrorKind::Refused, message }));
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains(message), "{error}");
        let options = Options { token: vec![0; 257], ..Options::new("127.0.0.1".parse().unwrap()) };
        let error = refusal(options.clone());
        assert!(error.to_string().contains("at most 256 bytes"), "{error}");
        assert!(!format!("{options:?}").contains("0, 0"), "tokens are not for logs");
    }

    #[test]
    fn a_welcome_that_is_none() {
        let pong = after(greeting(&Response::Pong));
        assert!(matches!(pong, ConnectError::Malformed { .. }), "{pong}");
        let mut endless = greeting(&Response::Pong);
        endless[8..12].copy_from_slice(&(1u32 << 20).to_le_bytes());
        assert!(matches!(after(endless), ConnectError::Malformed { .. }));
        let mut damaged = greeting(&Response::Welcome(welcome()));
        *damaged.last_mut().unwrap() ^= 1;
        let error = after(damaged);
        assert!(matches!(error, ConnectError::Malformed { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Incompatible);
    }

    #[test]
    fn memory_over_tcp() {
        let options = Options { wants: Wants::Memory, ..Options::new("127.0.0.1".parse().unwrap()) };
        assert!(matches!(refusal(options), ConnectError::MemoryOverTcp { .. }));
    }
}
