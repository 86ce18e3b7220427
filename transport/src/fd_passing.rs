//! Descriptors over a Unix socket (`SCM_RIGHTS`), with one byte of ordinary data, in one message.
//!
//! Both calls return `WouldBlock` on a socket that does not block, to be repeated when it is ready.

use farside_protocol::limits::SHARDS_MAX;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors in one message: one for each shard. (The kernel takes 253.)
pub const DESCRIPTORS_MAX: usize = SHARDS_MAX;

/// The byte that carries them, since a stream cannot carry descriptors alone.
const CARRIER: u8 = b'F';

const SPACE: usize = cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// Sends `descriptors`, one at least and at most [`DESCRIPTORS_MAX`].
pub fn send(socket: impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if descriptors.is_empty() || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "from 1 to 64 descriptors go into a message",
        ));
    }
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
    assert!(fits, "the buffer has room for DESCRIPTORS_MAX");
    loop {
        match sendmsg(&socket, &[IoSlice::new(&[CARRIER])], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            outcome => return outcome.map(drop).map_err(Into::into),
        }
    }
}

/// Receives exactly `count` descriptors, closed on exec. If another number comes, those that came are closed.
pub fn receive(socket: impl AsFd, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let flags = RecvFlags::CMSG_CLOEXEC;
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags) {
            Err(Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    // Taken out of the buffer before anything is judged: they are owned, and closed, from here on.
    let mut descriptors = Vec::with_capacity(count);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return wrong(format!(
            "descriptors were lost on the way: more than {DESCRIPTORS_MAX}, or this process may open no more; raise `ulimit -n`"
        ));
    }
    if byte != [CARRIER] || descriptors.len() != count {
        return wrong(format!("{} descriptors came where {count} were announced", descriptors.len()));
    }
    Ok(descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use rustix::io::{FdFlags, fcntl_getfd};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn files(count: usize) -> Vec<std::fs::File> {
        (0..count).map(|_| tempfile::tempfile().unwrap()).collect()
    }

    fn borrow(files: &[std::fs::File]) -> Vec<BorrowedFd<'_>> {
        files.iter().map(AsFd::as_fd).collect()
    }

    #[test]
    fn descriptors_arrive_in_order_and_are_closed_on_exec() {
        for count in [1, 2, DESCRIPTORS_MAX] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let files = files(count);
            send(&ours, &borrow(&files)).unwrap();
            let received = receive(&theirs, count).unwrap();
            for (file, received) in files.iter().zip(&received) {
                assert_eq!(fstat(file).unwrap().st_ino, fstat(received).unwrap().st_ino);
                assert!(fcntl_getfd(received).unwrap().contains(FdFlags::CLOEXEC));
            }
        }
    }

    /// A pipe's reader sees its end only when every descriptor of the writing side is closed.
    #[test]
    fn descriptors_that_were_not_expected_are_closed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&ours, &[writer.as_fd(), writer.as_fd()]).unwrap();
        drop(writer);
        let error = receive(&theirs, 1).unwrap_err();
        assert_eq!(error.to_string(), "2 descriptors came where 1 were announced");
        assert_eq!(io::Read::read(&mut reader, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn data_without_descriptors_and_an_end_are_errors() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"F").unwrap();
        assert_eq!(receive(&theirs, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(ours);
        assert_eq!(receive(&theirs, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn too_many_or_none_are_not_sent_and_a_wait_is_not_an_error_of_its_own() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let files = files(1);
        let many = vec![files[0].as_fd(); DESCRIPTORS_MAX + 1];
        assert_eq!(send(&ours, &many).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(send(&ours, &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        theirs.set_nonblocking(true).unwrap();
        assert_eq!(receive(&theirs, 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
