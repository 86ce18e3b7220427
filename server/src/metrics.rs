//! What is seen from outside: `/metrics` for Prometheus and `/healthz` for whoever restarts the server.
//!
//! Without a token, for nothing that is stored can be had here. On a thread of its own, so that it answers also when those
//! that serve clients are busy.

use crate::exposition;
use crate::state::State;
use crate::stats::{self, Role};
use crate::thread;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections at one time; further ones wait.
const CONNECTIONS_MAX: usize = 16;

/// How long the head of a request may take to come, and a connection be without one.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a connection lives at most, for one that does not take its answer would keep its place.
const LIFE: Duration = Duration::from_secs(300);

/// How long to wait when the system cannot give a connection.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Starts the thread. It ends when the server does.
pub(crate) fn spawn(state: Arc<State>, listener: TcpListener) -> io::Result<JoinHandle<()>> {
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    drop(entered);
    thread::spawn(state, "farside-metrics".into(), Role::Upkeep, move |state| {
        runtime.block_on(async {
            let stopped = state.stop.notify.notified();
            if !state.stop.has_begun() {
                tokio::select! {
                    () = stopped => {}
                    () = accept(&state, &listener) => {}
                }
            }
        });
        // Without waiting for a walk over the index that is under way.
        runtime.shutdown_background();
    })
}

/// Accepts for ever.
async fn accept(state: &Arc<State>, listener: &tokio::net::TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("it is never closed");
        let Ok((socket, _)) = listener.accept().await else {
            sleep(EXHAUSTED).await;
            continue;
        };
        let state = state.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(state.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(socket), service);
            // What goes wrong on a connection is that client's to notice.
            let _ = timeout(LIFE, connection).await;
            drop(place);
        });
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    Ok(match request.uri().path() {
        "/metrics" | "/healthz" if !is_read => {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            refusal
        }
        "/metrics" => {
            // It walks the index.
            let text = tokio::task::spawn_blocking(move || exposition::text(&stats::collect(&state))).await;
            match text {
                Ok(text) => {
                    let mut response = Response::new(text);
                    let kind = HeaderValue::from_static(exposition::CONTENT_TYPE);
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                    response
                }
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the figures could not be collected\n"),
            }
        }
        "/healthz" if state.stop.has_begun() => plain(StatusCode::SERVICE_UNAVAILABLE, "ending\n"),
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        _ => plain(StatusCode::NOT_FOUND, "here are /metrics and /healthz\n"),
    })
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(text.to_owned());
    *response.status_mut() = status;
    response
}
