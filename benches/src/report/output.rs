//! Where the forms of a report go.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use tempfile::NamedTempFile;

use super::Report;
use super::csv::csv;
use super::html::html;
use super::table::table;
use super::ycsb::ycsb;

/// An output that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Several outputs ask for standard output.
    #[error("{0} and {1} cannot both go to standard output; name a file for one of them")]
    TwoOnStandardOutput(&'static str, &'static str),
    /// Several outputs ask for one file.
    #[error("{first} and {second} cannot both go to {}; name another file for one of them", path.display())]
    SameFile {
        /// The flag that names it first.
        first: &'static str,
        /// The flag that names it again.
        second: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be created.
    #[error("cannot create {} for {flag}: {source}", path.display())]
    Create {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The forms that a report can be written in, beside the table.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct Files {
    /// Write the report, histograms included, as JSON; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the time series, second by second, as CSV; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write YCSB's text summary; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub ycsb: Option<PathBuf>,
    /// Write a page with plots; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// The outputs of a job, checked before the work begins: a name that cannot be written should cost no measurement.
/// Files get their names when they are complete, so that what was there stays until then.
#[derive(Debug)]
pub struct Outputs {
    sinks: Vec<(Form, Sink)>,
    /// The files that are written, each with the flag that names it.
    taken: Vec<(&'static str, PathBuf)>,
}

/// A form of a report beside the table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Json,
    Csv,
    Ycsb,
    Html,
}

#[derive(Debug)]
enum Sink {
    StandardOutput,
    /// A file that is replaced as a whole.
    File(PathBuf),
    /// A pipe or a device, which keeps its name.
    Special(File, PathBuf),
}

impl Outputs {
    /// Checks that what the flags name can be written; `-` is standard output, which then has no table.
    ///
    /// # Errors
    /// If a file cannot be created, or one file or standard output is named twice.
    pub fn open(files: &Files) -> Result<Self, OutputError> {
        let mut outputs = Self { sinks: Vec::new(), taken: Vec::new() };
        let mut standard = None;
        for (form, flag, path) in [
            (Form::Json, "--json", &files.json),
            (Form::Csv, "--csv", &files.csv),
            (Form::Ycsb, "--ycsb", &files.ycsb),
            (Form::Html, "--html", &files.html),
        ] {
            let Some(path) = path else { continue };
            if path == Path::new("-") {
                if let Some(first) = standard.replace(flag) {
                    return Err(OutputError::TwoOnStandardOutput(first, flag));
                }
                outputs.sinks.push((form, Sink::StandardOutput));
            } else {
                let sink = outputs.take(flag, path)?;
                outputs.sinks.push((form, sink));
            }
        }
        Ok(outputs)
    }

    /// Creates the file that `flag` names, for what is written bit by bit while the work goes on.
    ///
    /// # Errors
    /// If it cannot, or another output goes there.
    pub fn create_log(&mut self, flag: &'static str, path: &Path) -> Result<File, OutputError> {
        match self.take(flag, path)? {
            Sink::Special(file, _) => Ok(file),
            _ => File::create(path).map_err(|source| OutputError::Create {
                flag,
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// The sink for a file, which no other output may have.
    fn take(&mut self, flag: &'static str, path: &Path) -> Result<Sink, OutputError> {
        let failed = |source| OutputError::Create { flag, path: path.to_owned(), source };
        let full = match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                return Ok(Sink::Special(file, path.to_owned()));
            }
            Ok(_) => {
                OpenOptions::new().write(true).open(path).map_err(failed)?;
                fs::canonicalize(path).map_err(failed)?
            }
            Err(_) => {
                let name = path.file_name().unwrap_or_default();
                fs::canonicalize(folder(path)).map_err(failed)?.join(name)
            }
        };
        if let Some(&(first, _)) = self.taken.iter().find(|(_, taken)| *taken == full) {
            return Err(OutputError::SameFile { first, second: flag, path: path.to_owned() });
        }
        // To see that it can be done. It goes at once: a job may be killed before there is anything to write.
        temporary(&full).map_err(failed)?;
        self.taken.push((flag, full.clone()));
        Ok(Sink::File(full))
    }

    /// Writes the report in all its forms: the table to standard output, or to standard error if something else goes
    /// there.
    ///
    /// # Errors
    /// If one cannot be written. A reader that has closed standard output is no error.
    pub fn write(self, report: &Report) -> io::Result<()> {
        self.write_as(&table(report), |form| match form {
            Form::Json => report.to_json(),
            Form::Csv => csv(report),
            Form::Ycsb => ycsb(report),
            Form::Html => html(report),
        })
    }

    /// Writes a report of any kind likewise, whose forms `form_of` makes.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn write_as(self, table: &str, form_of: impl Fn(Form) -> String) -> io::Result<()> {
        let taken = self.sinks.iter().any(|(_, sink)| matches!(sink, Sink::StandardOutput));
        if taken {
            // Where nobody reads it, the reports that were asked for are still to be written.
            let _ = io::stderr().write_all(table.as_bytes());
        } else {
            to_standard_output(table)?;
        }
        for (form, sink) in self.sinks {
            let text = form_of(form);
            let (path, result) = match sink {
                Sink::StandardOutput => {
                    to_standard_output(&text)?;
                    continue;
                }
                Sink::File(path) => (path.clone(), replace(&path, text.as_bytes())),
                Sink::Special(mut file, path) => (path, file.write_all(text.as_bytes())),
            };
            result.map_err(|error| io::Error::other(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(())
    }
}

/// Puts `text` in place of what is at `path`, whole or not at all.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = temporary(path)?;
    file.write_all(text)?;
    file.persist(path)?;
    Ok(())
}

/// A temporary file on the file system of `path`, with the permissions of any new file.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let permissions = Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".farside-bench").permissions(permissions).tempfile_in(folder(path))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

fn to_standard_output(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn files_are_checked_first_and_written_last() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str| Some(directory.path().join(name));
        let files =
            Files { json: file("r.json"), csv: file("r.csv"), ycsb: file("r.ycsb"), html: file("r.html") };
        let outputs = Outputs::open(&files).expect("a good place");
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0, "nothing yet");
        outputs.write(&sample::good()).expect("there is room");
        for (path, beginning) in [
            (files.json, "{"),
            (files.csv, "phase,second"),
            (files.ycsb, "[OVERALL], RunTime(ms)"),
            (files.html, "<!DOCTYPE html>"),
        ] {
            let path = path.expect("named above");
            let text = fs::read_to_string(&path).expect("the file is there");
            assert!(text.starts_with(beginning), "{}", path.display());
        }
    }

    #[test]
    fn outputs_that_cannot_be_had_are_refused() {
        let standard = Some(PathBuf::from("-"));
        let twice = Files { json: standard.clone(), ycsb: standard, ..Files::default() };
        assert_eq!(
            Outputs::open(&twice).expect_err("twice").to_string(),
            "--json and --ycsb cannot both go to standard output; name a file for one of them"
        );
        let nowhere = Files { csv: Some(PathBuf::from("/nowhere/at/all.csv")), ..Files::default() };
        let error = Outputs::open(&nowhere).expect_err("no directory").to_string();
        assert!(error.starts_with("cannot create /nowhere/at/all.csv for --csv"), "{error}");
    }

    #[test]
    fn one_file_has_one_output_whatever_it_is_called() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let plain = directory.path().join("x");
        let detour =
            directory.path().join("../").join(directory.path().file_name().expect("a name")).join("x");
        let files = Files { csv: Some(plain.clone()), ycsb: Some(detour.clone()), ..Files::default() };
        let said = Outputs::open(&files).expect_err("one file").to_string();
        assert!(said.starts_with("--csv and --ycsb cannot both go to "), "{said}");
        let mut outputs =
            Outputs::open(&Files { json: Some(plain.clone()), ..Files::default() }).expect("one");
        assert!(matches!(outputs.create_log("--hdr", &detour), Err(OutputError::SameFile { .. })));
        // A device is nobody's.
        let null = Some(PathBuf::from("/dev/null"));
        let outputs =
            Outputs::open(&Files { csv: null.clone(), ycsb: null, ..Files::default() }).expect("no file");
        outputs.write(&sample::good()).expect("it takes everything");
        assert!(fs::metadata("/dev/null").is_ok_and(|null| !null.is_file()), "it is still a device");
    }

    #[test]
    fn what_was_there_stays_until_there_is_better() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("r.json");
        fs::write(&path, "old").expect("it is written");
        let outputs = Outputs::open(&Files { json: Some(path.clone()), ..Files::default() }).expect("a file");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "old");
        outputs.write(&sample::good()).expect("there is room");
        assert!(fs::read_to_string(&path).expect("it is there").starts_with('{'));
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
    }
}
