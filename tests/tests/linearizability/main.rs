//! Is the linearizability checker right, and fast enough? `README.md` of this package says what each part
//! proves and how to run it alone.

mod accepts;
mod agrees;
mod catches;
mod oracle;
mod register;
mod scales;
