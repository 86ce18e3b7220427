//! One channel's life on the I/O thread: connect, serve, and after a break connect again when a call wants it.

use super::call::Answer;
use super::connect::{Stream, connect};
use super::error::ConnectError;
use super::handshake::{self, Memory};
use super::shared::Shared;
use super::{Options, clock};
use bytes::BytesMut;
use farside_protocol::wire::{DecodeError, FrameHeader, HEADER_LEN, PARTING, Response, Wants};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A connection that held for longer is tried again at once when it breaks.
const STABLE: Duration = Duration::from_secs(1);

/// First and longest time between attempts to connect: a server that restarts is found within the first, one that
/// is gone is not stormed.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LAST: Duration = Duration::from_secs(2);

/// What one read from a socket can bring at most, and what the writer keeps between writes.
const BUFFER_LEN: usize = 64 << 10;

/// Opens a channel and leaves a task behind that serves it until it is closed.
pub(super) async fn open(options: Options) -> Result<(Arc<Shared>, Option<Memory>), ConnectError> {
    let (stream, welcome) = connect(&options).await?;
    let passed = if options.wants == Wants::Memory {
        let receive = handshake::receive_memory(&stream, &options, welcome.shards.len());
        let silent =
            |_| ConnectError::Silent { address: options.address.clone(), after: options.connect_timeout };
        Some(tokio::time::timeout(options.connect_timeout, receive).await.map_err(silent)??)
    } else {
        None
    };
    let stream = Arc::new(stream);
    let shared = Arc::new(Shared::new(options, welcome, Arc::clone(&stream)));
    let (ending, ended) = oneshot::channel();
    let memory = passed.map(|(files, socket)| Memory { files, lifeline: shared.lifeline(socket), ended });
    tokio::spawn(supervise(Arc::clone(&shared), stream, ending));
    Ok((shared, memory))
}

/// `_ending` goes with it: that tells who waits for the end.
async fn supervise(shared: Arc<Shared>, stream: Arc<Stream>, _ending: oneshot::Sender<Infallible>) {
    tokio::select! {
        () = clock::run(&shared) => {}
        () = keep_up(&shared, stream) => {}
        () = shared.closed() => {}
    }
}

/// Serves one connection after the other. Ends if there is to be no other.
async fn keep_up(shared: &Shared, mut stream: Arc<Stream>) {
    let mut backoff = Duration::ZERO;
    loop {
        let began = Instant::now();
        let cause = serve(shared, &stream).await;
        let cause = format!("the connection to {} broke: {cause}", shared.address());
        drop(stream);
        backoff = if began.elapsed() < STABLE { longer(backoff) } else { Duration::ZERO };
        let retry_at = (shared.options.wants == Wants::Messages).then(|| Instant::now() + backoff);
        let failed = shared.down(&cause, retry_at);
        tracing::warn!(failed_calls = failed, "{cause}");
        if retry_at.is_none() {
            return;
        }
        stream = connect_again(shared, &mut backoff).await;
    }
}

/// Connects when a call wants it, as often as it takes. Logs once that it fails and once that it is done.
async fn connect_again(shared: &Shared, backoff: &mut Duration) -> Arc<Stream> {
    let mut failures = 0u32;
    loop {
        shared.wanted().await;
        match connect(&shared.options).await {
            Ok((stream, welcome)) => {
                tracing::info!(
                    session = welcome.session,
                    failures,
                    "connected to {} again",
                    shared.address()
                );
                let stream = Arc::new(stream);
                shared.up_again(welcome, Arc::clone(&stream));
                return stream;
            }
            Err(error) => {
                *backoff = longer(*backoff);
                shared.down(&error.to_string(), Some(Instant::now() + *backoff));
                if failures == 0 {
                    tracing::warn!("{error}");
                }
                failures += 1;
            }
        }
    }
}

fn longer(backoff: Duration) -> Duration {
    (backoff * 2).clamp(BACKOFF_FIRST, BACKOFF_LAST)
}

/// Carries requests and answers until the connection breaks; returns how.
async fn serve(shared: &Shared, stream: &Stream) -> String {
    // At once, for a server may stop reading until its answers are read.
    tokio::select! {
        cause = read(shared, stream) => cause,
        error = write(shared, stream) => error.to_string(),
    }
}

async fn write(shared: &Shared, stream: &Stream) -> io::Error {
    let mut buffer = Vec::new();
    loop {
        buffer = shared.take_outbox(buffer);
        if buffer.is_empty() {
            shared.writer.notified().await;
            continue;
        }
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            match stream.write(rest).await {
                Ok(len) => {
                    shared.wrote(len);
                    rest = &rest[len..];
                }
                Err(error) => return error,
            }
        }
        buffer.clear();
        buffer.shrink_to(BUFFER_LEN);
    }
}

async fn read(shared: &Shared, stream: &Stream) -> String {
    let mut buffer = BytesMut::with_capacity(BUFFER_LEN);
    let mut answers = Vec::new();
    loop {
        let missing = match split(&mut buffer, &mut answers) {
            Ok(missing) => missing,
            Err(error) => return format!("it sent nonsense: {error}"),
        };
        let parting = answers.pop_if(|(id, _)| *id == PARTING);
        if let Err(id) = shared.answered(&mut answers) {
            return format!("it answered a request {id} that was never made");
        }
        if let Some((_, word)) = parting {
            return match word.response() {
                Ok(Response::Error { message, .. }) => format!("the server ended it: {message}"),
                _ => "the server ended it with a message that is none".into(),
            };
        }
        // Room for all that is missing of a long answer, which then arrives in one piece.
        buffer.reserve(missing.max(BUFFER_LEN / 4));
        match stream.read(&mut buffer).await {
            Ok(0) => return "the server closed it".into(),
            Ok(_) => {}
            Err(error) => return error.to_string(),
        }
    }
}

/// Takes the whole answers off the front of `buffer`; returns how many bytes are missing of the next.
fn split(buffer: &mut BytesMut, answers: &mut Vec<(u64, Answer)>) -> Result<usize, DecodeError> {
    while let Some(header) = buffer.first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::decode(header)?;
        let len = HEADER_LEN + header.body_len as usize;
        if buffer.len() < len {
            return Ok(len - buffer.len());
        }
        let mut frame = buffer.split_to(len);
        let body = frame.split_off(HEADER_LEN).freeze();
        answers.push((header.id, Answer { kind: header.kind, body }));
    }
    Ok(HEADER_LEN - buffer.len())
}
