// SPDX-License-Identifier: GPL-2.0

//! `rkprobe doctor`: does the kernel have what the tool needs? If not, what can you do?

use std::{
    collections::BTreeMap,
    fs,
    path::Path, //
};

use serde::Serialize;

use crate::{
    btf,
    context::Context,
    debug_files::module_file,
    failure::Result,
    lines,
    missing,
    suggest::of_release,
    sys,
    tracefs::EVENTS, //
};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Some commands or options cannot be used.
    Partly,
    /// The tool cannot be used.
    Bad,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Partly => "partly",
            Self::Bad => "bad",
        }
    }
}

/// A check, and its answer.
#[derive(Debug, PartialEq, Serialize)]
struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    state: State,
    /// The finding, with the remedy if something is missing.
    text: String,
}

/// The state of the machine, which the checks judge.
struct System {
    is_root: bool,
    release: String,
    has_tracefs: bool,
    has_debugfs: bool,
    is_loaded: bool,
    /// Whether a module is installed for this kernel.
    is_installed: bool,
    has_exits: bool,
    has_btf: bool,
    /// The file of lockdown. Empty without lockdown.
    lockdown: String,
    /// The number of functions that ftrace can trace.
    functions: usize,
    /// The switches that are off.
    switches: Vec<&'static str>,
    /// Why there are no source lines.
    no_lines: Option<String>,
}

impl System {
    fn read(context: &Context) -> Self {
        let exists = |name: &str| context.tracefs.path(name).exists();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            is_root: sys::is_root(),
            release: release.trim().into(),
            has_tracefs: exists("trace"),
            has_debugfs: Path::new("/sys/kernel/debug/kprobes").exists(),
            is_loaded: exists(EVENTS),
            is_installed: module_file("rkprobe", &of_release("modules.dep")).is_some(),
            has_exits: exists("rkprobe_exits"),
            has_btf: btf::with(None, |_| ()).is_some(),
            lockdown: fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default(),
            functions: context.functions.traceable().count(),
            switches: missing::switches_off(),
            no_lines: lines::why_none(),
        }
    }

    fn checks(&self) -> Vec<Check> {
        let check = |name, state, text: &str| Check {
            name,
            state,
            text: text.into(),
        };
        let needed = |name, is_there, good: &str, bad: &str| match is_there {
            true => check(name, State::Ok, good),
            false => check(name, State::Bad, bad),
        };
        let wanted = |name, is_there, good: &str, bad: &str| match is_there {
            true => check(name, State::Ok, good),
            false => check(name, State::Partly, bad),
        };
        let unloaded = match self.is_installed {
            true => "not loaded: modprobe rkprobe".into(),
            false => format!(
                "not installed for {}: apt install rkprobe-dkms, or make and insmod",
                self.release
            ),
        };
        let functions = format!("ftrace can trace {}", self.functions);
        let off = format!("off: {}: write 1 to each", self.switches.join(", "));
        let lines = self.no_lines.as_deref().unwrap_or("");
        vec![
            check("kernel", State::Ok, &self.release),
            needed("root", self.is_root, "yes", "no: run it with sudo"),
            self.lockdown(),
            needed(
                "tracefs",
                self.has_tracefs || !self.is_root,
                match self.has_tracefs {
                    true => "mounted",
                    false => "only root can see it",
                },
                "not mounted: mount -t tracefs tracefs /sys/kernel/tracing",
            ),
            match (self.is_loaded, self.is_root) {
                (false, false) => check("module", State::Partly, "only root can see whether it is loaded"),
                (is_loaded, _) => needed("module", is_loaded, "loaded", &unloaded),
            },
            wanted(
                "functions",
                self.functions > 0,
                &functions,
                "unknown: the list available_filter_functions is empty, or only root can read it",
            ),
            needed("switches", self.switches.is_empty(), "on", &off),
            wanted(
                "BTF",
                self.has_btf,
                "yes",
                "no: the kernel needs CONFIG_DEBUG_INFO_BTF for names of arguments, follow, --pid and --cpu",
            ),
            wanted(
                "debugfs",
                self.has_debugfs || !self.is_root,
                match self.has_debugfs {
                    true => "mounted",
                    false => "only root can see it",
                },
                "not mounted, so the blacklist of kprobes is unknown: mount -t debugfs debugfs /sys/kernel/debug",
            ),
            wanted(
                "exits",
                self.has_exits || !self.is_loaded,
                match self.has_exits {
                    true => "the module can find them",
                    false => "only the module knows",
                },
                "the module has no exit analysis: build it with CONFIG_RKPROBE_KRETINSN=y",
            ),
            wanted("source lines", self.no_lines.is_none(), "yes", lines),
        ]
    }

    fn lockdown(&self) -> Check {
        let mode = self.lockdown.split(['[', ']']).nth(1).unwrap_or("none");
        let (state, text) = match mode {
            "confidentiality" => (
                State::Bad,
                "confidentiality: it forbids tracing; start the kernel with lockdown=integrity or without Secure Boot",
            ),
            "integrity" if !self.is_loaded => (
                State::Partly,
                "integrity: the kernel loads only signed modules; dkms signs with a key of mokutil --import",
            ),
            mode => (State::Ok, mode),
        };
        Check {
            name: "lockdown",
            state,
            text: text.into(),
        }
    }
}

/// Runs the command. Returns the exit status: whether the tool can be used.
pub fn run(context: &Context) -> Result<u8> {
    let checks = System::read(context).checks();
    let is_good = checks.iter().all(|check| check.state != State::Bad);
    if context.is_json {
        context.print_json(&BTreeMap::from([("checks", &checks)]))?;
    } else {
        let line = |check: &Check| {
            let state = check.state.name();
            format!("{state:<6}  {:<12}  {}\n", check.name, check.text)
        };
        context.print(&checks.iter().map(line).collect::<String>())?;
    }
    Ok(u8::from(!is_good))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> System {
        System {
            is_root: true,
            release: "7.3".into(),
            has_tracefs: true,
            has_debugfs: true,
            is_loaded: true,
            is_installed: true,
            has_exits: true,
            has_btf: true,
            lockdown: "[none] integrity confidentiality\n".into(),
            functions: 5,
            switches: Vec::new(),
            no_lines: None,
        }
    }

    #[test]
    fn all_is_well() {
        assert!(good().checks().iter().all(|check| check.state == State::Ok));
        let without_lockdown = System {
            lockdown: String::new(),
            ..good()
        };
        assert_eq!(without_lockdown.lockdown().text, "none");
    }

    #[test]
    fn says_what_to_do() {
        let find = |system: System, name| {
            let mut checks = system.checks();
            checks.retain(|check| check.name == name);
            let check = checks.remove(0);
            (check.state, check.text)
        };
        let lockdown = |mode: &str, is_loaded| System {
            lockdown: mode.into(),
            is_loaded,
            ..good()
        };
        for (system, name, state, text) in [
            (
                System {
                    is_loaded: false,
                    ..good()
                },
                "module",
                State::Bad,
                "not loaded: modprobe rkprobe",
            ),
            (
                System {
                    is_loaded: false,
                    is_installed: false,
                    ..good()
                },
                "module",
                State::Bad,
                "not installed for 7.3: ",
            ),
            (
                System {
                    has_tracefs: false,
                    ..good()
                },
                "tracefs",
                State::Bad,
                "not mounted: mount -t tracefs ",
            ),
            (
                System {
                    is_root: false,
                    ..good()
                },
                "root",
                State::Bad,
                "no: run it with sudo",
            ),
            (
                System {
                    switches: vec!["kernel.ftrace_enabled"],
                    ..good()
                },
                "switches",
                State::Bad,
                "off: kernel.ftrace_enabled",
            ),
            (
                System {
                    no_lines: Some("install x".into()),
                    ..good()
                },
                "source lines",
                State::Partly,
                "install x",
            ),
            (
                System {
                    has_btf: false,
                    ..good()
                },
                "BTF",
                State::Partly,
                "no: the kernel needs ",
            ),
            (
                lockdown("none integrity [confidentiality]\n", true),
                "lockdown",
                State::Bad,
                "confidentiality: ",
            ),
            (
                lockdown("none [integrity] confidentiality\n", false),
                "lockdown",
                State::Partly,
                "integrity: ",
            ),
            (
                lockdown("none [integrity] confidentiality\n", true),
                "lockdown",
                State::Ok,
                "integrity",
            ),
        ] {
            let (found, shown) = find(system, name);
            assert_eq!(found, state, "{name}");
            assert!(shown.starts_with(text), "{shown}");
        }
    }
}
