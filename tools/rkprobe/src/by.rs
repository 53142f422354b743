// SPDX-License-Identifier: GPL-2.0

//! `--by`: how calls are divided.

use serde::{
    Serialize,
    Serializer, //
};
use serde_json::Value as Json;

use crate::{
    hist,
    record::Record, //
};

/// How the calls are divided.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    /// By the name of the task.
    Comm,
    /// By the thread ID.
    Pid,
    /// By the CPU on which the call ended.
    Cpu,
    /// By the stack at the end of the call.
    Stack,
}

/// How a table is divided.
#[derive(Clone, Copy)]
pub struct Division {
    /// The field that the event needs for the key, as the end of a command.
    pub field: &'static str,
    pub key: &'static str,
    /// The name of the key in the text of the table.
    pub name: &'static str,
}

impl By {
    /// Parses the value of `--by`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "comm" => Self::Comm,
            "pid" => Self::Pid,
            "cpu" => Self::Cpu,
            "stack" => Self::Stack,
            _ => return None,
        })
    }

    /// The field that the event needs for the key, as the end of a command.
    pub fn field(self) -> &'static str {
        match self {
            Self::Comm => " comm=$comm",
            Self::Cpu => " common_cpu=$current->thread_info.cpu",
            Self::Pid | Self::Stack => "",
        }
    }

    /// A group in JSON: a number, a name, or the frames of a stack.
    pub fn json(self, group: &str) -> Json {
        match self {
            Self::Stack => hist::lines(group).collect(),
            Self::Comm => group.into(),
            Self::Pid | Self::Cpu => group
                .parse::<u64>()
                .map_or_else(|_| group.into(), Json::from),
        }
    }

    /// The group of a record. Empty if the calls are not divided.
    pub fn name_of(by: Option<Self>, record: &Record<'_>) -> String {
        by.map_or(String::new(), |by| by.of(record))
    }

    /// The group of a record.
    pub fn of(self, record: &Record<'_>) -> String {
        match self {
            Self::Comm => record.text("comm"),
            Self::Pid => record.pid.into(),
            Self::Cpu => record.cpu.to_string(),
            Self::Stack => record.stack.join("\n"),
        }
    }

    /// The key of the table.
    pub fn key(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            _ => self.name(),
        }
    }

    /// How a table of functions, or that of a trace event, is divided.
    pub fn division(self, is_event: bool) -> Division {
        let of_event = |key| Division {
            field: "",
            key,
            name: key,
        };
        match self {
            // A field of the event can have the name `comm`.
            Self::Comm if is_event => of_event("$COMM"),
            Self::Cpu if is_event => of_event("$current->thread_info.cpu"),
            _ => Division {
                field: self.field(),
                key: self.key(),
                name: self.name(),
            },
        }
    }

    /// The name of the key in the text of the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Comm => "comm",
            Self::Pid => "common_pid",
            Self::Cpu => "common_cpu",
            Self::Stack => "common_stacktrace",
        }
    }
}

/// The task or the CPU of a row. In JSON, the name of the member says which.
#[derive(Default)]
pub struct Who {
    by: Option<By>,
    /// Empty if the rows are not divided, or if the row belongs to no task.
    pub name: String,
}

impl Who {
    pub fn new(by: Option<By>, name: String) -> Self {
        Self { by, name }
    }
}

impl Serialize for Who {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let by = self.by.filter(|_| !self.name.is_empty());
        serializer.collect_map(by.map(|by| (by.name(), by.json(&self.name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_their_types_in_json() {
        for (by, group, expected) in [
            (By::Pid, "12", "12"),
            (By::Cpu, "0", "0"),
            (By::Comm, "12", "\"12\""),
            (By::Stack, "f+0x1/0x2\n   g", "[\"f+0x1/0x2\",\"g\"]"),
        ] {
            assert_eq!(by.json(group).to_string(), expected);
        }
    }
}
