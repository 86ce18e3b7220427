/work/wt/core/tests/purity/target/debug/deps/farside_purity-b052e034b96580e5.d: src/main.rs

/work/wt/core/tests/purity/target/debug/deps/farside_purity-b052e034b96580e5: src/main.rs

src/main.rs:
