//! The operations, one file each. What each returns says whether its lease is spent.
