/work/wt/core/tests/purity/target/release/deps/farside_purity-4070b5efa6fde798.d: src/lib.rs

/work/wt/core/tests/purity/target/release/deps/libfarside_purity-4070b5efa6fde798.a: src/lib.rs

src/lib.rs:
