//! Keys that meet: all in one window or two, several of them with the same fingerprint.

use farside_protocol::{KeyHash, TableSeed};
use std::sync::OnceLock;

/// The seed of every simulated table's hash: the keys below are chosen for it.
pub(super) const TABLE_SEED: TableSeed = TableSeed(7);

/// Keys that share one fingerprint.
const TWINS: usize = 3;

/// Keys enough to fill a window.
const POOL: usize = 40;

/// The pool: the first [`TWINS`] keys share one fingerprint, the others have each their own. In a table of one line
/// all of them share a window, in one of two lines about half do and the windows overlap.
pub(super) fn pool() -> &'static [Vec<u8>] {
    static KEYS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let named = |i: u32| format!("k{i}").into_bytes();
        let fingerprint = |key: &[u8]| KeyHash::of(key, TABLE_SEED).fingerprint();
        let shared = fingerprint(&named(0));
        let mut keys: Vec<_> =
            (0..).map(named).filter(|key| fingerprint(key) == shared).take(TWINS).collect();
        let mut taken = vec![shared];
        for key in (1..).map(named) {
            if keys.len() == POOL {
                break;
            }
            if !taken.contains(&fingerprint(&key)) {
                taken.push(fingerprint(&key));
                keys.push(key);
            }
        }
        keys
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_has_twins_and_keys_of_both_lines() {
        let hashes: Vec<_> = pool().iter().map(|key| KeyHash::of(key, TABLE_SEED)).collect();
        assert!(hashes[..TWINS].iter().all(|hash| hash.fingerprint() == hashes[0].fingerprint()));
        assert!(hashes[TWINS..].iter().all(|hash| hash.fingerprint() != hashes[0].fingerprint()));
        for line in 0..2 {
            assert!(hashes.iter().filter(|hash| hash.home_line(2) == line).count() > POOL / 4);
        }
    }
}
