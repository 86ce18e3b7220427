//! Where the forms of a report go.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

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

/// The outputs of a job, opened before the work begins: a name that cannot be written should cost no measurement.
#[derive(Debug)]
pub struct Outputs {
    sinks: Vec<(Form, Sink)>,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Json,
    Csv,
    Ycsb,
    Html,
}

#[derive(Debug)]
enum Sink {
    StandardOutput,
    File(File, PathBuf),
}

impl Outputs {
    /// Opens what the flags name; `-` is standard output, which then has no table.
    ///
    /// # Errors
    /// If a file cannot be created, or standard output is named twice.
    pub fn open(files: &Files) -> Result<Self, OutputError> {
        let mut sinks = Vec::new();
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
                sinks.push((form, Sink::StandardOutput));
            } else {
                sinks.push((form, Sink::File(create(flag, path)?, path.to_owned())));
            }
        }
        Ok(Self { sinks })
    }

    /// Writes the report in all its forms: the table to standard output, or to standard error if something else goes
    /// there.
    ///
    /// # Errors
    /// If one cannot be written. A reader that has closed standard output is no error.
    pub fn write(self, report: &Report) -> io::Result<()> {
        let taken = self.sinks.iter().any(|(_, sink)| matches!(sink, Sink::StandardOutput));
        if taken {
            // Where nobody reads it, the reports that were asked for are still to be written.
            let _ = io::stderr().write_all(table(report).as_bytes());
        } else {
            to_standard_output(&table(report))?;
        }
        for (form, sink) in self.sinks {
            let text = match form {
                Form::Json => report.to_json(),
                Form::Csv => csv(report),
                Form::Ycsb => ycsb(report),
                Form::Html => html(report),
            };
            match sink {
                Sink::StandardOutput => to_standard_output(&text)?,
                Sink::File(mut file, path) => file
                    .write_all(text.as_bytes())
                    .map_err(|error| io::Error::other(format!("cannot write {}: {error}", path.display())))?,
            }
        }
        Ok(())
    }
}

/// Creates the file that `flag` names.
///
/// # Errors
/// If it cannot.
pub fn create(flag: &'static str, path: &Path) -> Result<File, OutputError> {
    File::create(path).map_err(|source| OutputError::Create { flag, path: path.to_owned(), source })
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
    fn files_are_opened_first_and_written_last() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str| Some(directory.path().join(name));
        let files =
            Files { json: file("r.json"), csv: file("r.csv"), ycsb: file("r.ycsb"), html: file("r.html") };
        let outputs = Outputs::open(&files).expect("a good place");
        outputs.write(&sample::good()).expect("there is room");
        for (path, beginning) in [
            (files.json, "{"),
            (files.csv, "phase,second"),
            (files.ycsb, "[OVERALL], RunTime(ms)"),
            (files.html, "<!DOCTYPE html>"),
        ] {
            let path = path.expect("named above");
            let text = std::fs::read_to_string(&path).expect("the file is there");
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
}
