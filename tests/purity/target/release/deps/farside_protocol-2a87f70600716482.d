/work/wt/core/tests/purity/target/release/deps/farside_protocol-2a87f70600716482.d: /work/wt/core/protocol/src/lib.rs /work/wt/core/protocol/src/class.rs /work/wt/core/protocol/src/error.rs /work/wt/core/protocol/src/geometry.rs /work/wt/core/protocol/src/hash.rs /work/wt/core/protocol/src/limits.rs /work/wt/core/protocol/src/mutation.rs /work/wt/core/protocol/src/record.rs /work/wt/core/protocol/src/superblock.rs /work/wt/core/protocol/src/wire/mod.rs /work/wt/core/protocol/src/wire/codec.rs /work/wt/core/protocol/src/wire/handshake.rs /work/wt/core/protocol/src/wire/request.rs /work/wt/core/protocol/src/wire/response.rs /work/wt/core/protocol/src/word.rs

/work/wt/core/tests/purity/target/release/deps/libfarside_protocol-2a87f70600716482.rlib: /work/wt/core/protocol/src/lib.rs /work/wt/core/protocol/src/class.rs /work/wt/core/protocol/src/error.rs /work/wt/core/protocol/src/geometry.rs /work/wt/core/protocol/src/hash.rs /work/wt/core/protocol/src/limits.rs /work/wt/core/protocol/src/mutation.rs /work/wt/core/protocol/src/record.rs /work/wt/core/protocol/src/superblock.rs /work/wt/core/protocol/src/wire/mod.rs /work/wt/core/protocol/src/wire/codec.rs /work/wt/core/protocol/src/wire/handshake.rs /work/wt/core/protocol/src/wire/request.rs /work/wt/core/protocol/src/wire/response.rs /work/wt/core/protocol/src/word.rs

/work/wt/core/tests/purity/target/release/deps/libfarside_protocol-2a87f70600716482.rmeta: /work/wt/core/protocol/src/lib.rs /work/wt/core/protocol/src/class.rs /work/wt/core/protocol/src/error.rs /work/wt/core/protocol/src/geometry.rs /work/wt/core/protocol/src/hash.rs /work/wt/core/protocol/src/limits.rs /work/wt/core/protocol/src/mutation.rs /work/wt/core/protocol/src/record.rs /work/wt/core/protocol/src/superblock.rs /work/wt/core/protocol/src/wire/mod.rs /work/wt/core/protocol/src/wire/codec.rs /work/wt/core/protocol/src/wire/handshake.rs /work/wt/core/protocol/src/wire/request.rs /work/wt/core/protocol/src/wire/response.rs /work/wt/core/protocol/src/word.rs

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
