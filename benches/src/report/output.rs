//! Where the forms of a report go.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Report;
use super::csv::csv;
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
    pub fn open(json: Option<&Path>, csv: Option<&Path>, ycsb: Option<&Path>) -> Result<Self, OutputError> {
        let mut sinks = Vec::new();
        let mut standard = None;
        for (form, flag, path) in
            [(Form::Json, "--json", json), (Form::Csv, "--csv", csv), (Form::Ycsb, "--ycsb", ycsb)]
        {
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
            io::stderr().write_all(table(report).as_bytes())?;
        } else {
            to_standard_output(&table(report))?;
        }
        for (form, sink) in self.sinks {
            let text = match form {
                Form::Json => report.to_json(),
                Form::Csv => csv(report),
                Form::Ycsb => ycsb(report),
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
        let path = |name: &str| directory.path().join(name);
        let outputs = Outputs::open(Some(&path("r.json")), Some(&path("r.csv")), Some(&path("r.ycsb")))
            .expect("a good place");
        outputs.write(&sample::good()).expect("there is room");
        for (name, beginning) in
            [("r.json", "{"), ("r.csv", "phase,second"), ("r.ycsb", "[OVERALL], RunTime(ms)")]
        {
            let text = std::fs::read_to_string(path(name)).expect("the file is there");
            assert!(text.starts_with(beginning), "{name}");
        }
    }

    #[test]
    fn outputs_that_cannot_be_had_are_refused() {
        let standard = Some(Path::new("-"));
        let twice = Outputs::open(standard, None, standard).expect_err("twice");
        assert_eq!(
            twice.to_string(),
            "--json and --ycsb cannot both go to standard output; name a file for one of them"
        );
        let nowhere =
            Outputs::open(None, Some(Path::new("/nowhere/at/all.csv")), None).expect_err("no directory");
        assert!(nowhere.to_string().starts_with("cannot create /nowhere/at/all.csv for --csv"));
    }
}
