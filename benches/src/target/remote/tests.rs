//! The clients against servers that a script plays.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use super::memcached::Memcached;
use super::redis::Redis;
use super::*;

const DEADLINE: Duration = Duration::from_secs(20);

const REDIS_FACTS: &str =
    "$67\r\nredis_version:7.2.4\r\nprocess_id:12\r\nvalkey_version:8.1.0\r\nrun_id:ab\r\n";
const REDIS_CPU: &str = "$40\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.000000\r\n";
const MEMCACHED_FACTS: &str = "STAT pid 7\r\nSTAT uptime 10\r\nSTAT time 1000\r\nSTAT version 1.6.18\r\n\
                               STAT rusage_user 0.250000\r\nEND\r\n";

/// A server that answers each line containing a word of `script`, from first to last, with what stands beside it, and ends
/// a connection when the answer is empty.
fn server(script: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
                for line in lines.map_while(Result::ok) {
                    let Some((_, answer)) = script.iter().find(|(word, _)| line.contains(word)) else {
                        continue;
                    };
                    if answer.is_empty() || stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn refusal<P: Protocol>(script: &'static [(&'static str, &'static str)]) -> String {
    Remote::<P>::connect(&server(script), DEADLINE).expect_err("no such server").to_string()
}

#[test]
fn redis_is_understood() {
    let address = server(&[
        ("server", REDIS_FACTS),
        ("cpu", REDIS_CPU),
        ("user1", "$3\r\none\r\n"),
        ("user2", "$-1\r\n"),
        ("user3", "-OOM command not allowed\r\n"),
        ("user4", "+OK\r\n"),
        ("user6", "*2\r\n$0\r\n\r\n$-1\r\n"),
        ("user7", "VALUE\r\n"),
        ("user8", "$3\r\nfours"),
    ]);
    let redis = Remote::<Redis>::connect(&address, DEADLINE).expect("it answers");
    assert_eq!(redis.description().version, "Valkey 8.1.0");
    assert_eq!(
        redis.facts().map(|facts| (facts.pid, facts.cpu)),
        Some((Some(12), Duration::from_millis(1500)))
    );
    let (mut session, mut value) = (redis.session().expect("a connection"), Vec::new());
    assert_eq!((session.get(b"user1", &mut value).answer, &value[..]), (Answer::Done, &b"one"[..]));
    assert_eq!(session.get(b"user2", &mut value).answer, Answer::NotFound);
    assert_eq!(session.put(b"user3", b"v").answer, Answer::Failed(ErrorKind::Full));
    assert!(session.last_failure().is_some_and(|text| text.ends_with("OOM command not allowed")));
    assert_eq!(session.put(b"user4", b"v").answer, Answer::Done);
    let (mut values, mut answers) = (vec![vec![1], vec![2]], [Answer::NotFound; 2]);
    session.get_many(&[b"user5".to_vec(), b"user6".to_vec()], &mut values, &mut answers);
    assert_eq!((answers, values[0].len()), ([Answer::Done, Answer::NotFound], 0));
    session.put_many(&[b"user4".to_vec(), b"user3".to_vec()], &[vec![1], vec![2]], &mut answers);
    assert_eq!(answers, [Answer::Done, Answer::Failed(ErrorKind::Full)]);
    assert_eq!(redis.link().reconnects, 0);
    for wrong in [b"user7", b"user8"] {
        assert_eq!(session.get(wrong, &mut value).answer, Answer::Failed(ErrorKind::Incompatible));
        assert!(
            session.last_failure().is_some_and(|text| text.contains("which no server of this kind does"))
        );
    }
    assert_eq!(session.get(b"user1", &mut value).answer, Answer::Done, "over another connection");
    assert_eq!(redis.link().reconnects, 2);
}

#[test]
fn memcached_is_understood() {
    let address = server(&[
        ("stats", MEMCACHED_FACTS),
        ("get user1 user2 user3", "VALUE user1 0 1\r\na\r\nVALUE user3 0 0\r\n\r\nEND\r\n"),
        ("get user1", "VALUE user1 0 3\r\none\r\nEND\r\n"),
        ("get user2", "END\r\n"),
        ("set user3", "SERVER_ERROR out of memory storing object\r\n"),
        ("set user4", "STORED\r\n"),
        ("get user5", "VALUE user6 0 3\r\none\r\nEND\r\n"),
        ("get user6", "VALUE user6 0 3\r\none\r\nVALUE"),
        ("get user7", ""),
        ("set user7", ""),
    ]);
    let memcached = Remote::<Memcached>::connect(&address, DEADLINE).expect("it answers");
    assert_eq!(memcached.description().version, "memcached 1.6.18");
    assert_eq!(memcached.link().instance.as_deref(), Some("7 since 990"));
    let (mut session, mut value) = (memcached.session().expect("a connection"), Vec::new());
    assert_eq!((session.get(b"user1", &mut value).answer, &value[..]), (Answer::Done, &b"one"[..]));
    assert_eq!(session.get(b"user2", &mut value).answer, Answer::NotFound);
    assert_eq!(session.put(b"user3", b"v").answer, Answer::Failed(ErrorKind::Full));
    assert_eq!(session.put(b"user4", b"v").answer, Answer::Done);
    let keys = [b"user1".to_vec(), b"user2".to_vec(), b"user3".to_vec()];
    let (mut values, mut answers) = (vec![vec![7]; 3], [Answer::NotFound; 3]);
    session.get_many(&keys, &mut values, &mut answers);
    assert_eq!(answers, [Answer::Done, Answer::NotFound, Answer::Done]);
    assert_eq!(values, [vec![b'a'], vec![7], vec![]]);
    assert_eq!(
        session.get(b"user5", &mut value).answer,
        Answer::Failed(ErrorKind::Incompatible),
        "another's"
    );
    assert_eq!(session.get(b"user7", &mut value).answer, Answer::Failed(ErrorKind::Unavailable));
    assert_eq!(session.put(b"user7", b"v").answer, Answer::Failed(ErrorKind::Indeterminate));
    assert_eq!(session.put(b"user4", b"v").answer, Answer::Done);
    assert_eq!(memcached.link().reconnects, 3);
}

#[test]
fn servers_of_another_kind_are_told() {
    let said = refusal::<Redis>(&[("server", "HTTP/1.1 400 Bad Request\r\n")]);
    assert!(
        said.contains("it answered \"HTTP/1.1 400 Bad Request\", which no server of this kind does"),
        "{said}"
    );
    let said = refusal::<Redis>(&[("server", "-NOAUTH Authentication required.\r\n")]);
    assert!(said.contains("it answered: NOAUTH Authentication required."), "{said}");
    let said = refusal::<Memcached>(&[("stats", "-ERR unknown command\r\n")]);
    assert!(said.contains("check the address and --db"), "{said}");
    let said = Remote::<Redis>::connect("127.0.0.1:1", DEADLINE).expect_err("nobody is there").to_string();
    assert!(
        said.starts_with("cannot use the redis server at 127.0.0.1:1: ") && said.contains("start it"),
        "{said}"
    );
    let said = Remote::<Redis>::connect("unix:/nowhere", DEADLINE).expect_err("nobody is there").to_string();
    assert!(said.contains("nothing listens there"), "{said}");
}

/// Beside the bytes that go over it: nothing.
#[test]
fn a_warm_connection_allocates_nothing() {
    let address = server(&[
        ("stats", MEMCACHED_FACTS),
        ("get user1", "VALUE user1 0 3\r\none\r\nEND\r\n"),
        ("set user1", "STORED\r\n"),
    ]);
    let memcached = Remote::<Memcached>::connect(&address, DEADLINE).expect("it answers");
    let (mut session, mut value) = (memcached.session().expect("a connection"), Vec::with_capacity(8));
    let allocated = allocation_counter::measure(|| {
        for _ in 0..100 {
            assert_eq!(session.put(b"user1", b"one").answer, Answer::Done);
            assert_eq!(session.get(b"user1", &mut value).answer, Answer::Done);
        }
    });
    assert_eq!(allocated.count_total, 0);
}
