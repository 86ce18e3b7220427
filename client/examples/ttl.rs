//! Values that go by themselves: a login session, and a lock whose holder may die.
//!
//! ```text
//! cargo run -p farside --example ttl
//! ```

use farside::{Put, PutOptions, Session};
use std::thread;
use std::time::Duration;

const TTL: Duration = Duration::from_millis(300);

fn main() -> farside::Result<()> {
    let farside = farside::embedded()?;
    let mut session = farside.session()?;

    session.put_with("login/42", "Ada", PutOptions::new().ttl(TTL))?.version();
    let login = session.get("login/42")?.expect("not expired yet");
    println!("logged in until {:?}", login.expires_at().expect("it has a time to live"));

    assert!(lock(&mut session, "first")?, "nobody holds it");
    assert!(!lock(&mut session, "second")?, "the first holds it");

    thread::sleep(TTL + Duration::from_millis(50));
    assert!(session.get("login/42")?.is_none(), "expired");
    assert!(lock(&mut session, "second")?, "the first let its time pass");
    println!("both expired");
    Ok(())
}

/// Takes the lock for `owner` if nobody holds it, or whoever did let its time pass.
fn lock(session: &mut Session, owner: &str) -> farside::Result<bool> {
    let options = PutOptions::new().ttl(TTL).if_absent();
    Ok(matches!(session.put_with("lock", owner, options)?, Put::Stored { .. }))
}
