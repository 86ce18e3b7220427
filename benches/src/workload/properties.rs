//! Reading YCSB's property files and `-p name=value`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::error::{WorkloadError, did_you_mean};
use super::names::{self, Role};

/// Where a value comes from, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// One of YCSB's workloads, or the default job: nothing the user wrote.
    BuiltIn(&'static str),
    /// A line of a `-P` file.
    File {
        /// The file as named.
        path: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// `-p` on the command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(what) => f.write_str(what),
            Self::File { path, line } => write!(f, "{path} line {line}"),
            Self::CommandLine => f.write_str("-p"),
        }
    }
}

/// One value and where it comes from.
#[derive(Debug, Clone)]
pub struct Property {
    /// As written, without surrounding blanks.
    pub value: String,
    /// Where it is written.
    pub origin: Origin,
}

/// All properties of a run. A later layer overrides an earlier one, as in YCSB: the named workload, then each
/// `-P` file, then each `-p`.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    entries: BTreeMap<String, Property>,
}

impl Properties {
    /// Adds the lines of a file: `name=value` or `name: value`; `#` and `!` begin comments.
    ///
    /// # Errors
    /// On a line that is none of these, a name nobody knows, a value that cannot be had, and a property given
    /// twice with different values.
    pub fn add_text(&mut self, text: &str, origin_of: impl Fn(usize) -> Origin) -> Result<(), WorkloadError> {
        let mut layer = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let origin = origin_of(number);
            let (name, value) = split(line, &origin)?;
            if let Some(first) = layer.entries.get(name).filter(|first| first.value != value) {
                let (name, first) = (name.to_owned(), first.origin.clone());
                return Err(WorkloadError::Repeated { name, first, second: origin });
            }
            layer.insert(name, value, origin)?;
        }
        self.entries.append(&mut layer.entries);
        Ok(())
    }

    /// Adds the file at `path`.
    ///
    /// # Errors
    /// As [`Self::add_text`], and if the file cannot be read.
    pub fn add_file(&mut self, path: &Path) -> Result<(), WorkloadError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| WorkloadError::Unreadable { path: path.to_owned(), source })?;
        self.add_text(&text, |line| Origin::File { path: path.display().to_string(), line })
    }

    /// Adds one `name=value` of the command line.
    ///
    /// # Errors
    /// As [`Self::add_text`].
    pub fn add_assignment(&mut self, assignment: &str) -> Result<(), WorkloadError> {
        let (name, value) = split(assignment, &Origin::CommandLine)?;
        self.insert(name, value, Origin::CommandLine)
    }

    /// Sets a property that the program itself knows to be right.
    pub fn set(&mut self, name: &'static str, value: &str, origin: Origin) {
        self.entries.insert(name.to_owned(), Property { value: value.to_owned(), origin });
    }

    /// Removes a property.
    pub fn remove(&mut self, name: &str) {
        self.entries.remove(name);
    }

    fn insert(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), WorkloadError> {
        match names::role(name) {
            None => {
                let suggestion = names::closest_property(name).map(str::to_owned);
                return Err(WorkloadError::Unknown { origin, name: name.to_owned(), suggestion });
            }
            Some(Role::Only(only, reason)) if !only.contains(&value) => {
                let (name, value) = (name.to_owned(), value.to_owned());
                return Err(WorkloadError::Unsupported { origin, name, value, reason });
            }
            Some(_) => {}
        }
        self.entries.insert(name.to_owned(), Property { value: value.to_owned(), origin });
        Ok(())
    }

    /// The property `name`, if it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Property> {
        self.entries.get(name)
    }

    /// The value of `name`, if it is set.
    ///
    /// # Errors
    /// If it does not parse; `expected` says what would.
    pub fn parsed<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, WorkloadError> {
        let Some(property) = self.get(name) else { return Ok(None) };
        property.value.parse().map(Some).map_err(|_| property.bad(name, expected))
    }

    /// The whole number `name`, or `default`.
    ///
    /// # Errors
    /// If it is set to anything else.
    pub fn whole(&self, name: &str, default: u64) -> Result<u64, WorkloadError> {
        Ok(self.parsed(name, "a whole number")?.unwrap_or(default))
    }

    /// The share `name`, between 0 and 1, or `default`.
    ///
    /// # Errors
    /// If it is set to anything else.
    pub fn share(&self, name: &str, default: f64) -> Result<f64, WorkloadError> {
        let expected = "a number from 0 to 1, such as 0.95";
        let share = self.parsed(name, expected)?.unwrap_or(default);
        match self.get(name) {
            Some(property) if !(0.0..=1.0).contains(&share) => Err(property.bad(name, expected)),
            _ => Ok(share),
        }
    }

    /// The position of the value of `name` among `choices`; the first if it is not set.
    ///
    /// # Errors
    /// If it is none of them; the message lists them.
    pub fn choice(&self, name: &str, choices: &[&str]) -> Result<usize, WorkloadError> {
        let Some(property) = self.get(name) else { return Ok(0) };
        choices.iter().position(|&choice| choice == property.value).ok_or_else(|| {
            let meant = names::closest(&property.value, choices.iter().copied());
            property.bad(name, &format!("one of {}{}", choices.join(", "), did_you_mean(meant)))
        })
    }

    /// Names that the user set and that change nothing here.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&str> {
        self.entries
            .iter()
            .filter(|(_, property)| !matches!(property.origin, Origin::BuiltIn(_)))
            .filter(|(name, _)| names::role(name) == Some(Role::NoEffect))
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

impl Property {
    /// The error of this value for the property `name`.
    #[must_use]
    pub fn bad(&self, name: &str, expected: &str) -> WorkloadError {
        WorkloadError::BadValue {
            origin: self.origin.clone(),
            name: name.to_owned(),
            value: self.value.clone(),
            expected: expected.to_owned(),
        }
    }
}

fn split<'a>(text: &'a str, origin: &Origin) -> Result<(&'a str, &'a str), WorkloadError> {
    text.split_once(['=', ':'])
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| WorkloadError::Syntax { origin: origin.clone(), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(text: &str) -> Result<Properties, WorkloadError> {
        let mut properties = Properties::default();
        properties.add_text(text, |line| Origin::File { path: "my.workload".to_owned(), line })?;
        Ok(properties)
    }

    fn message(text: &str) -> String {
        file(text).expect_err("must be refused").to_string()
    }

    #[test]
    fn comments_blanks_and_both_separators_are_read() {
        let properties = file("# c\n! c\n\n  recordcount = 10 \nfieldlength: 5\n").expect("a good file");
        assert_eq!(properties.whole("recordcount", 0).expect("a number"), 10);
        assert_eq!(properties.whole("fieldlength", 0).expect("a number"), 5);
        assert_eq!(properties.whole("fieldcount", 7).expect("the default"), 7);
    }

    #[test]
    fn later_layers_override() {
        let mut properties = file("recordcount=1\noperationcount=2").expect("a good file");
        properties.add_assignment("recordcount=3").expect("a good assignment");
        assert_eq!(properties.whole("recordcount", 0).expect("a number"), 3);
        assert_eq!(properties.whole("operationcount", 0).expect("a number"), 2);
    }

    #[test]
    fn mistakes_name_their_line_and_what_was_meant() {
        assert_eq!(
            message("recordcount=1\n\nreadpropotion=1"),
            "my.workload line 3: unknown property \"readpropotion\"; did you mean \"readproportion\"?"
        );
        assert_eq!(message("recordcount"), "my.workload line 1: expected name=value, found \"recordcount\"");
        assert_eq!(
            message("fieldcount=1\nfieldcount=2"),
            "my.workload line 2: \"fieldcount\" already has another value on my.workload line 1; keep one of them"
        );
        assert_eq!(
            message("readallfields=false"),
            "my.workload line 1: readallfields=false is not supported: a record is one value here and is read whole"
        );
    }

    #[test]
    fn wrong_values_say_what_is_expected() {
        let properties =
            file("recordcount=1e6\nreadproportion=95\nrequestdistribution=zipfain").expect("good names");
        let messages = [
            properties.whole("recordcount", 0).expect_err("no whole number").to_string(),
            properties.share("readproportion", 0.0).expect_err("above 1").to_string(),
            properties
                .choice("requestdistribution", &["uniform", "zipfian"])
                .expect_err("a slip")
                .to_string(),
        ];
        assert_eq!(
            messages,
            [
                "my.workload line 1: recordcount=1e6: expected a whole number",
                "my.workload line 2: readproportion=95: expected a number from 0 to 1, such as 0.95",
                "my.workload line 3: requestdistribution=zipfain: expected one of uniform, zipfian; \
                 did you mean \"zipfian\"?",
            ]
        );
    }

    #[test]
    fn only_the_users_own_idle_settings_are_noted() {
        let mut properties = file("table=t\nrecordcount=1").expect("a good file");
        properties.set("columnfamily", "c", Origin::BuiltIn("a workload"));
        assert_eq!(properties.without_effect(), ["table"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*|([a-z=:# \n\t.0-9]*)") {
            let _ = file(&text);
        }

        #[test]
        fn what_is_written_is_read(count in any::<u64>(), share in 0.0..=1.0_f64) {
            let properties = file(&format!("recordcount={count}\nreadproportion={share}")).expect("a good file");
            prop_assert_eq!(properties.whole("recordcount", 0).expect("a number"), count);
            prop_assert_eq!(properties.share("readproportion", 0.0).expect("a share"), share);
        }
    }
}
