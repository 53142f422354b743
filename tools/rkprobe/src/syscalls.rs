// SPDX-License-Identifier: GPL-2.0

//! System calls, as a program calls them: their names and arguments.
//!
//! The function of a system call gets the registers of the program. The kernel's events of system calls say which of
//! them are arguments, and their types.

use std::collections::HashMap;

use probe::btf::{
    field_offset,
    Btf,
    TypeKind, //
};

use crate::{
    flags::Flags,
    literal::{
        quote,
        unquote, //
    }, //
    tracefs::Tracefs,
    tree::Call,
};

/// How the names of the functions start. C: `SYSCALL_DEFINEx()` of each architecture.
const PREFIXES: [&str; 5] = [
    "__x64_sys_",
    "__arm64_sys_",
    "__se_sys_",
    "__do_sys_",
    "__ia32_sys_",
];
/// The functions of all system calls, as a pattern.
#[cfg(target_arch = "x86_64")]
pub const ALL: &str = "__x64_sys_*";
#[cfg(not(target_arch = "x86_64"))]
pub const ALL: &str = "__arm64_sys_*";
/// The functions that never return, as a pattern.
#[cfg(target_arch = "x86_64")]
pub const EXITS: &str = "__x64_sys_exit*";
#[cfg(not(target_arch = "x86_64"))]
pub const EXITS: &str = "__arm64_sys_exit*";
/// One of all.
#[cfg(target_arch = "x86_64")]
pub const ANY: &str = "__x64_sys_openat";
#[cfg(not(target_arch = "x86_64"))]
pub const ANY: &str = "__arm64_sys_openat";

/// The registers of the arguments in `struct pt_regs`. On arm64, the first is also that of the result. C:
/// `syscall_get_arguments()`.
#[cfg(target_arch = "x86_64")]
const REGISTERS: [(&str, u32); 6] = [
    ("di", 0),
    ("si", 0),
    ("dx", 0),
    ("r10", 0),
    ("r8", 0),
    ("r9", 0),
];
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: [(&str, u32); 6] = [
    ("orig_x0", 0),
    ("regs", 8),
    ("regs", 16),
    ("regs", 24),
    ("regs", 32),
    ("regs", 40),
];
/// The number of arguments that can be strings: no path is the fifth argument.
const STRINGS: usize = 4;

/// The name of a system call, from that of its function.
pub fn name(function: &str) -> Option<&str> {
    let mut prefixes = PREFIXES.iter();
    prefixes.find_map(|prefix| function.strip_prefix(prefix))
}

/// The fetch arguments for the arguments of a system call, if the first parameter of the function has the registers of
/// the program.
pub fn fetch_arguments(btf: &Btf<'_>, function: &str) -> Option<String> {
    let first = btf.function(function)?.params().next()?;
    let target = btf.resolve(btf.resolve(first.ty)?.target())?;
    if btf.name(target) != Some("pt_regs") {
        return None;
    }
    let registers = btf.find("pt_regs", TypeKind::Struct)?;
    let mut words = String::new();
    let mut strings = String::new();
    for (index, (register, offset)) in REGISTERS.iter().enumerate() {
        let offset = offset + field_offset(btf, registers, register).ok()?;
        words += &format!(" sys{index}=+{offset}($arg1):x64");
        if index < STRINGS {
            strings += &format!(" str{index}=+0(+{offset}($arg1)):ustring");
        }
    }
    Some(words + &strings)
}

/// A parameter of a system call: its type as in C, and its name.
type Parameter = (String, String);

/// The parameters in the `format` of an event.
fn parameters(format: &str) -> Vec<Parameter> {
    let fields = format.lines().filter_map(|line| {
        let field = line.trim().strip_prefix("field:")?.split(';').next()?;
        let (ty, name) = field.rsplit_once(' ')?;
        let is_own = name.starts_with("common_") || name.starts_with("__");
        (!is_own).then(|| (ty.trim().into(), name.into()))
    });
    fields.collect()
}

/// The value of a parameter of the system call `call`. `text` is the string to which it points, if it is an address of
/// one.
fn show(call: &str, ty: &str, name: &str, word: u64, text: Option<&str>) -> String {
    let is_hex = [
        "flags", "mask", "cmd", "prot", "request", "op", "arg", "addr",
    ]
    .iter()
    .any(|end| name.ends_with(end));
    match ty {
        "const char *" | "char *" if word == 0 => "NULL".into(),
        // The program gives a buffer for the result, or what it writes.
        "const char *" | "char *" if !name.contains("buf") => text
            .and_then(unquote)
            .map_or_else(|| format!("{word:#x}"), quote),
        "umode_t" => format!("{:04o}", word as u16),
        "int" if ["open", "openat"].contains(&call) && name == "flags" => {
            Flags::open().show((word as u32).into())
        }
        _ if ty.ends_with('*') && word == 0 => "NULL".into(),
        _ if ty.ends_with('*') => format!("{word:#x}"),
        "int" | "pid_t" | "clockid_t" | "timer_t" => (word as i32).to_string(),
        _ if name.ends_with("fd") => (word as i32).to_string(),
        "unsigned int" if is_hex => format!("{:#x}", word as u32),
        "unsigned int" => (word as u32).to_string(),
        "long" | "off_t" | "loff_t" | "ssize_t" => (word as i64).to_string(),
        _ if is_hex => format!("{word:#x}"),
        _ => word.to_string(),
    }
}

/// What the kernel says about its system calls. The answers are kept.
#[derive(Default)]
pub struct Syscalls {
    known: HashMap<String, Vec<Parameter>>,
}

impl Syscalls {
    /// The system call of a call, with its arguments. `None` if the root does not record them, or is none.
    pub fn text(&mut self, tracefs: &Tracefs, call: &Call) -> Option<String> {
        let word = |index: usize| -> Option<u64> {
            let text = call.field(&format!("sys{index}"))?;
            u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
        };
        word(0)?;
        let name = name(&call.root().function)?;
        let parameters = self.known.entry(name.into()).or_insert_with(|| {
            let file = format!("events/syscalls/sys_enter_{name}/format");
            parameters(&tracefs.read(&file).unwrap_or_default())
        });
        let arguments: Vec<String> = parameters
            .iter()
            .enumerate()
            .filter_map(|(index, (ty, parameter))| {
                let text = call.field(&format!("str{index}"));
                let value = show(name, ty, parameter, word(index)?, text);
                Some(format!("{parameter}={value}"))
            })
            .collect();
        Some(format!("{name}({})", arguments.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        btf::{
            self,
            builder::Builder, //
        },
        tree::tests::call, //
    };

    use super::*;

    const FORMAT: &str = "name: sys_enter_openat\nID: 600\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] __filename_val;\toffset:48;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"dfd: 0x%08lx\", ((unsigned long)(REC->dfd))\n";

    #[test]
    fn an_event_has_the_parameters_of_a_system_call() {
        let mut syscalls = Syscalls::default();
        syscalls.known.insert("openat".into(), parameters(FORMAT));
        let tracefs = Tracefs::for_tests();
        let mut call = call(&[(0, "__x64_sys_openat", -2)]);
        assert_eq!(syscalls.text(&tracefs, &call), None);
        let fields = [
            ("sys0", "0xffffff9c"),
            ("sys1", "0x7f00"),
            ("sys2", "0x80000"),
            ("sys3", "0x1a4"),
            ("str1", "\"/a \"b\"\""),
        ];
        call.fields = fields
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let text =
            "openat(dfd=-100, filename=\"/a \\\"b\\\"\", flags=O_RDONLY|O_CLOEXEC, mode=0644)";
        assert_eq!(syscalls.text(&tracefs, &call).as_deref(), Some(text));
        call.steps[0].function = "vfs_read".into();
        assert_eq!(syscalls.text(&tracefs, &call), None);
    }

    #[test]
    fn the_type_of_an_argument_decides() {
        for (ty, name, word, expected) in [
            ("const char *", "path", 0, "NULL"),
            ("const char *", "path", 16, "0x10"),
            ("char *", "type", 16, "0x10"),
            ("char *", "buf", 16, "0x10"),
            ("struct sockaddr *", "umyaddr", 16, "0x10"),
            ("void *", "data", 0, "NULL"),
            ("unsigned int", "fd", 0xffff_ffff, "-1"),
            ("pid_t", "upid", u64::MAX, "-1"),
            ("unsigned int", "cmd", 0x5401, "0x5401"),
            ("unsigned int", "count", 5, "5"),
            ("unsigned long", "flags", 64, "0x40"),
            ("size_t", "len", 4096, "4096"),
            ("off_t", "offset", u64::MAX, "-1"),
        ] {
            assert_eq!(
                show("", ty, name, word, Some("(fault)")),
                expected,
                "{ty} {name}"
            );
        }
    }

    #[test]
    fn registers_have_the_arguments() {
        let mut types = Builder::new();
        let long = types.int("long", 8, 0);
        let names = REGISTERS.map(|(name, _)| (name, long, 64));
        let names = &names[..if names[1].0 == names[2].0 { 2 } else { 6 }];
        let registers = types.members(4, "pt_regs", names);
        let constant = types.refer(10, "", registers);
        let pointer = types.ptr(constant);
        types.function("f", &[("regs", pointer)], long);
        types.function("g", &[("n", long)], long);
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        let text = fetch_arguments(&btf, "f").unwrap();
        assert!(text.starts_with(" sys0=+8($arg1):x64 sys1=+"));
        assert!(text.ends_with("($arg1)):ustring"));
        assert_eq!(fetch_arguments(&btf, "g"), None);
        assert_eq!(name("__arm64_sys_mount"), Some("mount"));
        assert_eq!(name("vfs_read"), None);
    }
}
