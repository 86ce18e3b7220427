/work/wt/core/tests/purity/target/release/deps/farside_hashtable-84323215dee57215.d: /work/wt/core/hashtable/src/lib.rs /work/wt/core/hashtable/src/duties.rs /work/wt/core/hashtable/src/hints.rs /work/wt/core/hashtable/src/io.rs /work/wt/core/hashtable/src/plan/mod.rs /work/wt/core/hashtable/src/plan/chain.rs /work/wt/core/hashtable/src/plan/delete.rs /work/wt/core/hashtable/src/plan/fetch_add.rs /work/wt/core/hashtable/src/plan/forward.rs /work/wt/core/hashtable/src/plan/get.rs /work/wt/core/hashtable/src/plan/insert.rs /work/wt/core/hashtable/src/plan/lookup.rs /work/wt/core/hashtable/src/plan/put.rs /work/wt/core/hashtable/src/plan/supersede.rs /work/wt/core/hashtable/src/plan/upkeep.rs

/work/wt/core/tests/purity/target/release/deps/libfarside_hashtable-84323215dee57215.rlib: /work/wt/core/hashtable/src/lib.rs /work/wt/core/hashtable/src/duties.rs /work/wt/core/hashtable/src/hints.rs /work/wt/core/hashtable/src/io.rs /work/wt/core/hashtable/src/plan/mod.rs /work/wt/core/hashtable/src/plan/chain.rs /work/wt/core/hashtable/src/plan/delete.rs /work/wt/core/hashtable/src/plan/fetch_add.rs /work/wt/core/hashtable/src/plan/forward.rs /work/wt/core/hashtable/src/plan/get.rs /work/wt/core/hashtable/src/plan/insert.rs /work/wt/core/hashtable/src/plan/lookup.rs /work/wt/core/hashtable/src/plan/put.rs /work/wt/core/hashtable/src/plan/supersede.rs /work/wt/core/hashtable/src/plan/upkeep.rs

/work/wt/core/tests/purity/target/release/deps/libfarside_hashtable-84323215dee57215.rmeta: /work/wt/core/hashtable/src/lib.rs /work/wt/core/hashtable/src/duties.rs /work/wt/core/hashtable/src/hints.rs /work/wt/core/hashtable/src/io.rs /work/wt/core/hashtable/src/plan/mod.rs /work/wt/core/hashtable/src/plan/chain.rs /work/wt/core/hashtable/src/plan/delete.rs /work/wt/core/hashtable/src/plan/fetch_add.rs /work/wt/core/hashtable/src/plan/forward.rs /work/wt/core/hashtable/src/plan/get.rs /work/wt/core/hashtable/src/plan/insert.rs /work/wt/core/hashtable/src/plan/lookup.rs /work/wt/core/hashtable/src/plan/put.rs /work/wt/core/hashtable/src/plan/supersede.rs /work/wt/core/hashtable/src/plan/upkeep.rs

/work/wt/core/hashtable/src/lib.rs:
/work/wt/core/hashtable/src/duties.rs:
/work/wt/core/hashtable/src/hints.rs:
/work/wt/core/hashtable/src/io.rs:
/work/wt/core/hashtable/src/plan/mod.rs:
/work/wt/core/hashtable/src/plan/chain.rs:
/work/wt/core/hashtable/src/plan/delete.rs:
/work/wt/core/hashtable/src/plan/fetch_add.rs:
/work/wt/core/hashtable/src/plan/forward.rs:
/work/wt/core/hashtable/src/plan/get.rs:
/work/wt/core/hashtable/src/plan/insert.rs:
/work/wt/core/hashtable/src/plan/lookup.rs:
/work/wt/core/hashtable/src/plan/put.rs:
/work/wt/core/hashtable/src/plan/supersede.rs:
/work/wt/core/hashtable/src/plan/upkeep.rs:
