//! A library without std that holds the two pure crates. Were std anywhere among their dependencies, its panic handler
//! and this one would collide and the build fail; `check` looks through what the result still wants from outside, and
//! lets only memory functions pass: no system call, no I/O.
#![no_std]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use farside_hashtable::hints::Hints;
use farside_protocol::{KeyHash, TableSeed};

struct NoMemory;

// SAFETY: it never returns memory, which an allocator may always do.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _layout: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _memory: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Reaches into both crates, so that they are linked and not only compiled.
#[unsafe(no_mangle)]
pub extern "C" fn farside_purity() -> i32 {
    let hints = Hints::with_bytes(64);
    i32::from(hints.get(KeyHash::of(b"key", TableSeed(1))).is_some())
}
