/work/wt/core/tests/purity/target/debug/deps/farside_protocol-c638091dd10341d5.d: /work/wt/core/protocol/src/lib.rs /work/wt/core/protocol/src/class.rs /work/wt/core/protocol/src/error.rs /work/wt/core/protocol/src/geometry.rs /work/wt/core/protocol/src/hash.rs /work/wt/core/protocol/src/limits.rs /work/wt/core/protocol/src/mutation.rs /work/wt/core/protocol/src/record.rs /work/wt/core/protocol/src/superblock.rs /work/wt/core/protocol/src/wire/mod.rs /work/wt/core/protocol/src/wire/codec.rs /work/wt/core/protocol/src/wire/handshake.rs /work/wt/core/protocol/src/wire/request.rs /work/wt/core/protocol/src/wire/response.rs /work/wt/core/protocol/src/word.rs

/work/wt/core/tests/purity/target/debug/deps/libfarside_protocol-c638091dd10341d5.rlib: /work/wt/core/protocol/src/lib.rs /work/wt/core/protocol/src/class.rs /work/wt/core/protocol/src/error.rs /work/wt/core/protocol/src/geometry.rs /work/wt/core/protocol/src/hash.rs /work/wt/core/protocol/src/limits.rs /work/wt/core/protocol/src/mutation.rs /work/wt/core/protocol/src/record.rs /work/wt/core/protocol/src/superblock.rs /work/wt/core/protocol/src/wire/mod.rs /work/wt/core/protocol/src/wire/codec.rs /work/wt/core/protocol/src/wire/handshake.rs /work/wt/core/protocol/src/wire/request.rs /work/wt/core/protocol/src/wire/response.rs /work/wt/core/protocol/src/word.rs

/work/wt/core/tests/purity/target/debug/deps/libfarside_protocol-c638091dd10341d5.rmeta: /work/wt/core/protocol/src/lib.rs /work/wt/core/protocol/src/class.rs /work/wt/core/protocol/src/error.rs /work/wt/core/protocol/src/geometry.rs /work/wt/core/protocol/src/hash.rs /work/wt/core/protocol/src/limits.rs /work/wt/core/protocol/src/mutation.rs /work/wt/core/protocol/src/record.rs /work/wt/core/protocol/src/superblock.rs /work/wt/core/protocol/src/wire/mod.rs /work/wt/core/protocol/src/wire/codec.rs /work/wt/core/protocol/src/wire/handshake.rs /work/wt/core/protocol/src/wire/request.rs /work/wt/core/protocol/src/wire/response.rs /work/wt/core/protocol/src/word.rs

/work/wt/core/protocol/src/lib.rs:
/work/wt/core/protocol/src/class.rs:
/work/wt/core/protocol/src/error.rs:
/work/wt/core/protocol/src/geometry.rs:
/work/wt/core/protocol/src/hash.rs:
/work/wt/core/protocol/src/limits.rs:
/work/wt/core/protocol/src/mutation.rs:
/work/wt/core/protocol/src/record.rs:
/work/wt/core/protocol/src/superblock.rs:
/work/wt/core/protocol/src/wire/mod.rs:
/work/wt/core/protocol/src/wire/codec.rs:
/work/wt/core/protocol/src/wire/handshake.rs:
/work/wt/core/protocol/src/wire/request.rs:
/work/wt/core/protocol/src/wire/response.rs:
/work/wt/core/protocol/src/word.rs:
