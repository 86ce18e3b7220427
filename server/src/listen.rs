//! The two doors: a TCP port, and a Unix socket for clients on the same host.

use crate::config::{Config, Socket};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// Longest path of a Unix socket, bytes: `sockaddr_un` less the byte that ends it.
const PATH_LEN_MAX: usize = 107;

/// Why the server cannot be reached the way it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The TCP address cannot be had.
    #[error("cannot listen on {address}: {source}{}", advice(source))]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The Unix socket cannot be made.
    #[error(
        "cannot listen on the socket {path}: {source}; set XDG_RUNTIME_DIR, or give --shm-socket PATH or off"
    )]
    Unix {
        /// The socket's path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The path of the Unix socket is too long.
    #[error(
        "the socket's path {0} has more than the {PATH_LEN_MAX} bytes that a Unix socket's may have: choose a shorter \
         one (--shm-socket PATH), or off"
    )]
    TooLong(PathBuf),
    /// Another server listens on the Unix socket.
    #[error(
        "another server is listening on the socket {0}: stop it, or give this one a path of its own (--shm-socket)"
    )]
    InUse(PathBuf),
    /// There is something at the path that is no socket.
    #[error("{0} exists and is no socket: remove it, or choose another path (--shm-socket)")]
    NoSocket(PathBuf),
    /// The folder of the socket is not this user's alone.
    #[error(
        "the folder {0} must belong to this user and be closed to others (mode 0700): remove it, or choose a path \
         for the socket (--shm-socket)"
    )]
    Folder(PathBuf),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "; another program has this port: stop it or choose another one (-p, --metrics)"
        }
        ErrorKind::AddrNotAvailable => "; this host has no such address",
        ErrorKind::PermissionDenied => {
            "; ports below 1024 need privileges: choose another one (-p, --metrics)"
        }
        _ => "",
    }
}

/// Binds the TCP address. The port of a server that just ended can be had at once.
pub(crate) fn tcp(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let bind = || -> rustix::io::Result<OwnedFd> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    bind().map(TcpListener::from).map_err(|error| ListenError::Tcp { address, source: error.into() })
}

/// A bound Unix socket, whose file goes when this does.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The folder that was made for it, to be removed with it unless other sockets lie there.
    folder: Option<PathBuf>,
}

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Neither can be mended here: the next start replaces a socket left behind, and a folder that is not empty
        // has another server's socket in it.
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = &self.folder {
            // Not while another server is about to make its socket in it.
            let _lock = own_folder(folder);
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Makes the Unix socket that `config` asks for; `port` is the one TCP listens on. The socket of a server that
/// was killed is replaced; in the usual folder, all such are removed.
pub(crate) fn unix(config: &Config, port: u16) -> Result<Option<(UnixListener, SocketFile)>, ListenError> {
    let (path, folder) = match &config.socket {
        Socket::Off => return Ok(None),
        // Clients are told the path, and may have another working directory.
        Socket::At(path) => {
            let absolute = std::path::absolute(path);
            (absolute.map_err(|source| ListenError::Unix { path: path.clone(), source })?, None)
        }
        Socket::Usual => {
            let folder = usual_folder(std::env::var_os("XDG_RUNTIME_DIR"));
            (folder.join(format!("{port}.sock")), Some(folder))
        }
    };
    if path.as_os_str().len() > PATH_LEN_MAX {
        return Err(ListenError::TooLong(path));
    }
    let Some(folder) = folder else { return bind(&path, None).map(Some) };
    let lock = own_folder(&folder)?;
    clear_all_stale(&folder);
    let bound = bind(&path, Some(folder.clone()));
    if bound.is_err() {
        // It may have been made just now; with another server's socket in it, it stays.
        let _ = fs::remove_dir(&folder);
    }
    drop(lock);
    bound.map(Some)
}

fn bind(path: &Path, folder: Option<PathBuf>) -> Result<(UnixListener, SocketFile), ListenError> {
    clear_stale(path)?;
    let failed = |source| ListenError::Unix { path: path.into(), source };
    let listener = UnixListener::bind(path).map_err(failed)?;
    let file = SocketFile { path: path.into(), folder };
    listener.set_nonblocking(true).map_err(failed)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    Ok((listener, file))
}

/// The folder for sockets in `runtime`, or in /tmp if that is not there: after `su`, or in a container, the variable
/// may name the folder of another login.
fn usual_folder(runtime: Option<OsString>) -> PathBuf {
    let named = runtime.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let base = match named {
        Some(folder) if folder.is_dir() => folder,
        Some(folder) => {
            tracing::warn!(folder = %folder.display(), "XDG_RUNTIME_DIR does not exist: the socket is made in /tmp");
            "/tmp".into()
        }
        None => "/tmp".into(),
    };
    base.join(format!("farside-{}", rustix::process::getuid().as_raw()))
}

/// Makes `folder`, or checks that the one there is closed to others: in /tmp anybody could have made it. Returns it
/// locked, against another server of this user that would take a socket that is not yet listened on for a stale one.
fn own_folder(folder: &Path) -> Result<OwnedFd, ListenError> {
    let failed = |error: Errno| ListenError::Unix { path: folder.into(), source: error.into() };
    // Ends: each further round means that another server, the last in the folder, ended just now and removed it.
    loop {
        match rustix::fs::mkdir(folder, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(folder, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => continue,
            Err(_) => return Err(ListenError::Folder(folder.into())),
        };
        rustix::fs::flock(&opened, FlockOperation::LockExclusive).map_err(failed)?;
        let status = rustix::fs::fstat(&opened).map_err(failed)?;
        if status.st_uid != rustix::process::getuid().as_raw() || status.st_mode & 0o077 != 0 {
            return Err(ListenError::Folder(folder.into()));
        }
        if status.st_nlink > 0 {
            return Ok(opened);
        }
    }
}

/// Removes the sockets that killed servers left in `folder`, whatever their ports were.
fn clear_all_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "sock")) {
        // What cannot be removed, or is no socket, is in nobody's way but its own port's server's, which says so.
        let _ = clear_stale(&entry.path());
    }
}

/// Removes the socket of a server that is no more.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(ListenError::NoSocket(path.into())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // A full queue of connections is a living server's.
        Ok(_) => Err(ListenError::InUse(path.into())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ListenError::InUse(path.into())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| ListenError::Unix { path: path.into(), source })
        }
        Err(source) => Err(ListenError::Unix { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn at(path: &Path) -> Config {
        Config { socket: Socket::At(path.into()), ..Config::default() }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a killed server leaves its socket");
        let (listener, file) = unix(&at(&path), 1).unwrap().unwrap();
        assert_eq!(file.path(), path);
        assert!(matches!(unix(&at(&path), 1), Err(ListenError::InUse(_))));
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn a_runtime_folder_that_is_not_there_is_done_without() {
        let uid = rustix::process::getuid().as_raw();
        let folder = tempfile::tempdir().unwrap();
        let there = usual_folder(Some(folder.path().into()));
        assert_eq!(there, folder.path().join(format!("farside-{uid}")));
        for stale in [None, Some("".into()), Some("/nonexistent/1000".into())] {
            assert_eq!(usual_folder(stale), Path::new(&format!("/tmp/farside-{uid}")));
        }
    }

    #[test]
    fn a_path_that_cannot_be_had_says_what_to_do() {
        for path in ["/nonexistent/x".into(), format!("/tmp/{}", "x".repeat(103))] {
            let error = unix(&at(Path::new(&path)), 1).unwrap_err().to_string();
            assert!(error.contains("--shm-socket PATH"), "{error}");
        }
    }

    #[test]
    fn all_stale_sockets_of_a_folder_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        drop(UnixListener::bind(at("1.sock")).unwrap());
        drop(UnixListener::bind(at("2.sock")).unwrap());
        drop(UnixListener::bind(at("other")).unwrap());
        fs::write(at("3.sock"), "precious").unwrap();
        let _live = UnixListener::bind(at("4.sock")).unwrap();
        clear_all_stale(folder.path());
        let kept = ["1.sock", "2.sock", "other", "3.sock", "4.sock"].map(|name| at(name).exists());
        assert_eq!(kept, [false, false, true, true, true]);
    }

    #[test]
    fn a_folder_has_one_server_at_a_time_set_up_its_socket() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("f");
        let lock = own_folder(&folder).unwrap();
        let (locked, second) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let own = own_folder(&folder).unwrap();
                locked.send(rustix::fs::fstat(own).unwrap().st_nlink).unwrap();
            });
            let waits = std::time::Duration::from_millis(50);
            assert!(second.recv_timeout(waits).is_err(), "the first has not finished");
            fs::remove_dir(&folder).unwrap();
            drop(lock);
            assert!(second.recv().unwrap() > 0, "the removed folder was made again");
        });
    }

    #[test]
    fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(unix(&at(&path), 1), Err(ListenError::NoSocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_folder_open_to_others_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("f");
        own_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        own_folder(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(own_folder(&folder), Err(ListenError::Folder(_))));
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        assert!(matches!(own_folder(&link), Err(ListenError::Folder(_))));
    }

    #[test]
    fn a_taken_port_says_so() {
        let first = tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = tcp(first.local_addr().unwrap()).unwrap_err();
        assert!(error.to_string().contains("another program has this port"), "{error}");
    }
}
