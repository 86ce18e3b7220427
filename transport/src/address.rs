//! Where a server listens, as people write it.
//!
//! ```text
//! cache-1              host, default port
//! cache-1:7471         host and port
//! 10.0.0.7:7471        IPv4
//! [fe80::1]:7471       IPv6, always in brackets
//! unix:/run/f.sock     Unix socket on this host
//! ```

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// The control port of a server that was not given another.
pub const DEFAULT_PORT: u16 = 7471;

/// Longest path of a Unix socket, bytes: `sockaddr_un` less the byte that ends it.
const UNIX_PATH_MAX: usize = 107;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// TCP.
    Tcp {
        /// A name, or an IPv4 or IPv6 address without brackets.
        host: String,
        /// The port, not 0.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why text is no address. Each message shows the text and what would do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// Nothing there.
    #[error("the address is empty; write `host`, `host:port`, `[ipv6]:port` or `unix:/path`")]
    Empty,
    /// A list.
    #[error("`{0}` names several servers; this build takes the address of one")]
    Several(String),
    /// No host before the colon.
    #[error("`{0}` has no host; write for instance `127.0.0.1:{DEFAULT_PORT}`")]
    NoHost(String),
    /// What follows the colon is no port.
    #[error("`{text}` has the port `{port}`; a port is a number from 1 to 65535")]
    Port {
        /// The address.
        text: String,
        /// The port in it.
        port: String,
    },
    /// More than one colon outside brackets.
    #[error("`{0}` has several colons; write an IPv6 address in brackets, as in `[::1]:{DEFAULT_PORT}`")]
    Brackets(String),
    /// Not an IPv6 address in the brackets, or something else than a port behind them.
    #[error("`{0}` is no IPv6 address with an optional port; write for instance `[::1]:{DEFAULT_PORT}`")]
    Ipv6(String),
    /// Characters that no host has.
    #[error("`{0}` has blanks or slashes in its host; write `host:port`, or `unix:/path` for a Unix socket")]
    Host(String),
    /// A Unix path that is relative or too long.
    #[error("`{0}` is no Unix socket; write `unix:` and an absolute path of at most {UNIX_PATH_MAX} bytes")]
    Unix(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            let fits = path.starts_with('/') && path.len() <= UNIX_PATH_MAX && !path.contains('\0');
            return if fits { Ok(Self::Unix(path.into())) } else { Err(AddressError::Unix(text.into())) };
        }
        if text.contains(',') {
            return Err(AddressError::Several(text.into()));
        }
        if let Some(rest) = text.strip_prefix('[') {
            return ipv6(text, rest);
        }
        let (host, port) = match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(AddressError::Brackets(text.into())),
            Some((host, port)) => (host, parse_port(text, port)?),
            None => (text, DEFAULT_PORT),
        };
        if host.is_empty() {
            return Err(AddressError::NoHost(text.into()));
        }
        if host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/') {
            return Err(AddressError::Host(text.into()));
        }
        Ok(Self::Tcp { host: host.into(), port })
    }
}

fn ipv6(text: &str, rest: &str) -> Result<Address, AddressError> {
    let wrong = || AddressError::Ipv6(text.into());
    let (host, behind) = rest.split_once(']').ok_or_else(wrong)?;
    // A zone, as in `fe80::1%eth0`, is the resolver's to understand.
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    address.parse::<Ipv6Addr>().map_err(|_| wrong())?;
    let port = match behind.strip_prefix(':') {
        Some(port) => parse_port(text, port)?,
        None if behind.is_empty() => DEFAULT_PORT,
        None => return Err(wrong()),
    };
    Ok(Address::Tcp { host: host.into(), port })
}

fn parse_port(text: &str, port: &str) -> Result<u16, AddressError> {
    match port.parse() {
        // `+80` parses, but nobody means it.
        Ok(number) if number != 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
        _ => Err(AddressError::Port { text: text.into(), port: port.into() }),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Result<Address, AddressError> {
        Ok(Address::Tcp { host: host.into(), port })
    }

    #[test]
    fn every_form_is_understood_and_prints_as_it_is_written() {
        for (text, address) in [
            ("cache-1:9000", tcp("cache-1", 9000)),
            ("10.0.0.7:1", tcp("10.0.0.7", 1)),
            ("[::1]:65535", tcp("::1", 65535)),
            ("[fe80::1%eth0]:7471", tcp("fe80::1%eth0", 7471)),
            ("unix:/run/farside.sock", Ok(Address::Unix("/run/farside.sock".into()))),
        ] {
            assert_eq!(text.parse(), address);
            assert_eq!(address.unwrap().to_string(), text);
        }
        assert_eq!("cache-1".parse(), tcp("cache-1", DEFAULT_PORT));
        assert_eq!("[::1]".parse(), tcp("::1", DEFAULT_PORT));
    }

    #[test]
    fn each_mistake_is_named() {
        let too_long = format!("unix:/{}", "x".repeat(UNIX_PATH_MAX));
        for (text, error) in [
            ("", AddressError::Empty),
            ("a:1,b:2", AddressError::Several("a:1,b:2".into())),
            (":7471", AddressError::NoHost(":7471".into())),
            ("h:", AddressError::Port { text: "h:".into(), port: String::new() }),
            ("h:0", AddressError::Port { text: "h:0".into(), port: "0".into() }),
            ("h:65536", AddressError::Port { text: "h:65536".into(), port: "65536".into() }),
            ("h:+80", AddressError::Port { text: "h:+80".into(), port: "+80".into() }),
            ("[::1]:x", AddressError::Port { text: "[::1]:x".into(), port: "x".into() }),
            ("::1", AddressError::Brackets("::1".into())),
            ("[::1", AddressError::Ipv6("[::1".into())),
            ("[host]:1", AddressError::Ipv6("[host]:1".into())),
            ("[::1]7471", AddressError::Ipv6("[::1]7471".into())),
            ("http//x", AddressError::Host("http//x".into())),
            ("a b:1", AddressError::Host("a b:1".into())),
            ("unix:relative", AddressError::Unix("unix:relative".into())),
            (&too_long, AddressError::Unix(too_long.clone())),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
    }
}
