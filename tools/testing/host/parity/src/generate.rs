// SPDX-License-Identifier: GPL-2.0

//! The cases that are made from the grammar: the same each time.
//!
//! Parts of it are written out in full, such as every type of every sort of value; others are chosen by
//! random numbers from a fixed seed: sentences of the grammar, and the same with something wrong in them.

use std::collections::BTreeSet;

/// The kinds of probes: how a command of each starts, and a target.
const KINDS: [(&str, &str); 5] = [
    ("p", "vfs_read"),
    ("r", "vfs_read"),
    ("f", "vfs_read"),
    ("f", "vfs_read%return"),
    ("t", "task_rename"),
];

/// Numbers, and what looks like some.
const NUMBERS: &str = r#"
    0 00 1 01 08 7 8 010 0x 0x0 0X1 0x10 0xfF 0xg 0b1 1x 1_0 {} +1 ++1 -1 --1 +-1 -+1 -0 - + 64
    65 127 128 2047 2048 2049 4096 4097 65536 4294967295 4294967296 9223372036854775807
    9223372036854775808 18446744073709551616
"#;

/// Where numbers are.
const PLACES_OF_NUMBERS: [&str; 28] = [
    "r#:ev vfs_read",
    "r# vfs_read",
    "p#:ev vfs_read",
    "p:ev vfs_read+#",
    "p:ev vfs_read-#",
    "r:ev vfs_read+#",
    "p:ev vfs_read+#%return",
    "p:ev vfs_read a=@#",
    "p:ev vfs_read a=@+#",
    "p:ev vfs_read a=@init_uts_ns+#",
    "p:ev vfs_read a=@init_uts_ns-#:u8",
    "p:ev vfs_read a=$stack#",
    "p:ev vfs_read a=$arg#",
    "r:ev vfs_read a=$arg#",
    "f:ev vfs_read a=$arg#",
    "p:ev vfs_read a=\\#",
    "p:ev vfs_read a=\\#:u8",
    "p:ev vfs_read a=+#(%di)",
    "p:ev vfs_read a=-#(%di)",
    "p:ev vfs_read a=+u#(%di):u8",
    "p:ev vfs_read a=-u#(+#(%di)):x16",
    "p:ev vfs_read a=+0(%di):u8[#]",
    "p:ev vfs_read a=%di:b#@4/32",
    "p:ev vfs_read a=%di:b4@#/32",
    "p:ev vfs_read a=%di:b4@0/#",
    "p:ev vfs_read a=(file)+#(%di)->f_mode",
    "p:ev vfs_read a=(task_struct)(@init_task+#)->pid",
    "p:ev vfs_read a=this_cpu_read(@#)",
];

/// Sorts of values, and what looks like some.
const VALUES: &str = r#"
    %di %ax %sp %ip %flags %none $stack $stack0 $stack3 $arg1 $arg6 $arg7 $retval $comm $COMM
    @init_uts_ns @init_uts_ns+65 @nosuchsymbol @0xffffffff81000000 +0(%di) -8(+16($stack))
    +u0($arg2) +0(@init_uts_ns) +4(\1) \1 \-1 \"text"
"#;

/// Types, and what looks like some.
const TYPES: &str = r#"
    {} :u8 :u16 :u32 :u64 :s8 :s16 :s32 :s64 :x8 :x16 :x32 :x64 :char :symbol :string :ustring
    :symstr :b1@0/8 :b3@5/8 :b4@4/16 :b31@1/32 :b64@0/64 :b5@4/8 :b1@63/64 :u8[1] :u8[4] :s16[2]
    :x32[64] :u64[65] :char[16] :symbol[2] :string[1] :string[3] :ustring[2] :symstr[2]
    :b4@4/8[2] : :u :u7 :u8:u8 :[2] :u8[ :u8[] :u8[2]x :b4@4 :b@0/8 :long
"#;

/// Groups and events, and what looks like some.
const NAMES: &str = r#"
    {} : :e :ev :Ev_2 :_ev :9ev :ev9 :e.v :e-v :e:v :ev/ :g/ev :g.ev :g/ :g. :/ev :.ev :/ :.
    :_g/ev :G-1/ev :-g/ev :1g/ev :g_1/ev :g-/ev :g.h/ev :g/ev/x :g/ev.x :g.ev.x :g.ev/x :g//ev
    :{n*63} :{n*64} :{g*62}/ev :{g*63}/ev :{g*64}/ev :{g*63}/{n*63} :{g*63}/{n*64} :g/{n*64}.
    :sched/sched_switch :sched/ev :kprobes/ev :{c3}{a9}
"#;

/// Names of arguments, and what looks like some.
const ARGUMENT_NAMES: &str = r#"
    a _ _1 a1 A_b9 1a {} a.b a-b a:b $a {n*31} {n*32} {n*33} common_type common_flags
    common_preempt_count common_pid common_tgid __probe_ip __probe_ret_ip __probe_func common
    a== arg2
"#;

/// Targets, and what looks like some.
const TARGETS: &str = r#"
    vfs_read vfs_read+0 vfs_read+0x0 vfs_read-0 vfs_read+0+0 vfs_read%return vfs_read+0%return
    vfs_read%return+0 vfs_read% vfs_read%ret vfs_read%returns vfs_read%return%return
    vfs_read%Return %return +0 -0 + vfs_read+ vfs_read- vfs_read+x vfs_read{20}+0 nosuchfunction
    nosuchfunction+4 nosuchfunction+4x nosuchfunction%return init_uts_ns init_task
    __pfx_vfs_read do_int3 name_show name_show+4 name_show%return kprobe_handler vfs_* vfs_rea?
    vfs_re[ab]d *vfs_read vfs_r*d * ? [ vfs_*%return nosuch* vmlinux:vfs_read dummy:dummy_xmit
    dummy:dummy_xmit+0 dummy:dummy_xmit%return dummy:nosuchfunction dummy:vfs_read dummy_xmit
    dummy: dummy:vfs_read%x task_rename task_rename%return sched/task_rename sched:task_rename
    9lives {x*64} {@vfs_read} {@init_uts_ns}
"#;

/// What stands for nothing in a command, and what is not part of it.
const SPACES: [&str; 26] = [
    " p:ev vfs_read",
    "  p:ev  vfs_read  a=\\1  b=\\2  ",
    "p:ev{09}vfs_read{09}a=\\1",
    "p:ev vfs_read{0d}",
    "p:ev{0b}vfs_read",
    "p:ev{0c}vfs_read a=\\1",
    "p:ev vfs_read#",
    "p:ev vfs_read #",
    "p:ev vfs_read # a=\\1",
    "p:ev vfs_read a=\\\"#\"",
    "p:ev#vfs_read",
    "{23}",
    " {23} p:ev vfs_read",
    "p:ev vfs_read{0a}",
    "p:ev vfs_read{0a}p:ev2 vfs_read",
    "p:ev vfs_read{0a}p:ev nosuch{0a}p:ev2 vfs_read",
    "{0a}p:ev vfs_read",
    "{0a}{0a}",
    "p:ev vfs_read{0a}-:ev",
    "p:ev vfs_read{0a}r:ev vfs_read{0a}-:ev",
    "p:ev vfs_read ;p:ev2 vfs_read",
    "p:ev vfs_read;",
    "p:ev vfs_read a=\\1;b=\\2",
    "p:ev vfs_read a=\\1, b=\\2",
    "p:ev vfs_read a = \\1",
    "p:ev vfs_read a=\\\"two words\"",
];

/// What deletes, or looks like it, after the commands of [`BEFORE_DELETES`].
const DELETES: [&str; 44] = [
    "-:ev",
    "-:kprobes/ev",
    "-:kprobes.ev",
    "-:g/ev",
    "-:g/",
    "-:g/nosuch",
    "-:nosuch",
    "-:nosuch/",
    "-:nosuch/ev",
    "-:/ev",
    "-:/",
    "-:",
    "-",
    "- :ev",
    "-ev",
    "-p:ev",
    "-1:ev",
    "-:ev vfs_read",
    "-:ev vfs_write",
    "-:ev vfs_read a=\\1",
    "-:ev vfs_read a=\\2",
    "-:ev vfs_read b=\\1",
    "-:ev vfs_read a=\\1 b=\\2",
    "-:ev vfs_read a",
    "-:ev vfs_read+0",
    "-:ev vfs_read+4",
    "-:ev vfs_read%return",
    "-:ev {@vfs_read}",
    "-:ev  vfs_read",
    "-:ev #",
    "-:g/ vfs_read",
    "-:g/ vfs_write",
    "-:g/ev/x",
    "-::ev",
    "--:ev",
    " -:ev",
    "!p:ev",
    "!p:g/ev",
    "!r:g/ev",
    "!:ev",
    "!p",
    "!",
    "!ev",
    "!x:ev vfs_read",
];

const BEFORE_DELETES: [&str; 4] = [
    "p:ev vfs_read a=\\1",
    "p:ev vfs_write a=\\1",
    "r:g/ev vfs_read",
    "p:g/other vfs_read",
];

/// Pairs of arguments: of an event, and of what is to be added to it.
const APPENDED: [(&str, &str); 24] = [
    ("", ""),
    ("", "a=\\1"),
    ("a=\\1", ""),
    ("a=\\1", "a=\\1"),
    ("a=\\1", "a=\\2"),
    ("a=\\1", "a=\\0x1"),
    ("a=\\1", "b=\\1"),
    ("a=\\1", "a=\\1:u8"),
    ("a=\\1:u64", "a=\\1:x64"),
    ("a=\\1:u8", "a=\\1:s8"),
    ("a=\\1:u8", "a=\\1:char"),
    ("a=\\1", "a=\\1 b=\\2"),
    ("a=\\1 b=\\2", "a=\\1"),
    ("a=\\1 b=\\2", "a=\\2 b=\\2"),
    ("a=\\1 b=\\2", "b=\\2 a=\\1"),
    ("a=\\1 b=\\2", "a=\\1 c=\\2"),
    ("a=\\1:b4@0/8", "a=\\1:b3@0/8"),
    ("a=\\1:b4@0/8", "a=\\1:u8"),
    ("a=+0($stack):u8[2]", "a=+0($stack):u8[3]"),
    ("a=+0($stack):u8[2]", "a=+0($stack):u8"),
    ("a=+0($stack):string", "a=+0($stack):ustring"),
    ("a=+0($stack):string", "a=$comm"),
    ("a=\\\"x\"", "a=$comm"),
    ("$stack", "arg1=$stack"),
];

/// Arguments by BTF: for `vfs_read(file, buf, count, pos)` and its like.
const BTF_ARGUMENTS: &str = r#"
    file buf count pos nosuch a=file a=count:u8 count:u8 count:x64 count:b4@0/8 a=+0(file)
    +0(pos) a=+0(buf):ustring a=buf:string a=buf:ustring a=count:string a=file:string
    file->f_mode file->f_flags a=file->f_mode:u8 file->f_path.dentry
    a=file->f_path.dentry->d_name.name:string a=file->f_path.dentry->d_name.len
    file->f_inode->i_ino a=file->f_inode->i_size a=file->f_inode->i_mode:b4@12/16 file->nosuch
    file.f_mode file-f_mode file-> file. file->f_path file->f_path. file->f_path.nosuch
    file->f_path->dentry count->x count.x buf->x pos->x a=file->f_pos a=file->f_op->read
    a=file->f_inode->i_sb->s_id a=file->f_inode->i_sb->s_id:string
    a=file->f_inode->i_sb->s_type->name:string a=+4(file->f_path.dentry)
    a=file->f_inode->i_opflags a=file->f_inode->i_nlink a=file->f_inode->i_flags:x8[2] $arg*
    $arg1 $arg3 $arg4 $arg5 $arg3:u8 $arg1:string $arg2:ustring $arg $argx $arg0 $arg1x
    $arg1->f_mode a=$arg* a=b=\1 a=b=%di:%pd
"#;

/// Values of returns by BTF.
const BTF_RETURNS: &str = r#"
    $retval a=$retval a=$retval:string $retval:u8 a=$retval:symstr $retval->x $retval.x
    a=+0($retval) $retvalx a=$retval_ $retval:ustring a=$retval:string[2] $retval-x a=$retval->
"#;

/// More functions, for what they return and take.
const BTF_TARGETS: [&str; 14] = [
    "p:ev vfs_open $arg*",
    "r:ev filp_close $arg* $retval",
    "r:ev kfree $retval",
    "f:ev kfree%return a=$retval",
    "f:ev kfree a=object",
    "r:ev fget $retval",
    "f:ev fget%return a=$retval->f_mode",
    "r:ev getname_flags $retval->name:string",
    "p:ev vfs_unlink $arg*",
    "p:ev schedule $arg*",
    "p:ev __x64_sys_umask $arg*",
    "p:ev vfs_read+5 $arg*",
    "p:ev vfs_read+5 file",
    "p:ev {@vfs_read} $arg*",
];

/// Levels around the value `#`, right and wrong: typecasts and per-CPU variables.
const LEVELS: &str = r#"
    (file)#->f_mode (file)(#)->f_mode (task_struct,comm)#->pid (task_struct,comm)(#)->pid
    (file)+0(#)->f_mode (file)this_cpu_ptr(#)->f_mode (nosuch)#->f_mode (file,nosuch)(#)->f_mode
    (file)(#)->f_path.dentry->d_name.name:string this_cpu_read(#) this_cpu_ptr(#)
    this_cpu_ptr(#):x64 +8(this_cpu_read(#)) this_cpu_read(-8(#)) this_cpu_ptr((file)#->f_inode)
    (inode)((file)(#)->f_inode)->i_size (file)# (file)#->nosuch
"#;

/// Values to put into [`LEVELS`].
const WITHIN_LEVELS: &str = r#"
    %di %none $stack $stack3 $arg1 $arg7 $retval $comm $current $current->mm $current->nosuch
    file file->f_inode file->nosuch nosuch @current_task @init_uts_ns+65 @nosuchsymbol
    @0xffffffff81000000 \1 \"text"
"#;

/// Structures: the name, the field of a typecast, the fields after it.
const STRUCTURES: [(&str, &str, &str); 11] = [
    ("file", "f_mode", "f_flags"),
    ("file", "f_path.dentry", "f_path.dentry->d_name.name"),
    ("file", "f_pos", "f_inode->i_sb->s_id"),
    ("inode", "i_ino", "i_mode"),
    ("dentry", "d_name.name", "d_parent->d_name.len"),
    ("task_struct", "comm", "comm"),
    ("task_struct", "tasks", "in_execve"),
    (
        "task_struct",
        "se.run_node",
        "real_parent->real_parent->pid",
    ),
    ("rq", "curr", "curr->comm"),
    ("list_head", "prev", "next->prev"),
    ("qstr", "name", "len"),
];

/// Expressions of any length: `#` stands for the missing letters.
const LONG: [&str; 10] = [
    "\\\"#\"",
    "\\#",
    "%di:#",
    "@#",
    "$current->#",
    "(#)%di->f_mode",
    "(file,#)%di->f_mode",
    "(file)(%di)->#",
    "this_cpu_read(@#)",
    "+0(+0(%di))#",
];

/// Values that are the same in each run, by typecasts, per-CPU variables and `$current`.
const STABLE: [&str; 8] = [
    "$current->comm:string",
    "a=(task_struct,comm)$comm->real_parent->comm:string",
    "a=(task_struct)this_cpu_read(@current_task)->comm:char[8]",
    "a=(rq)this_cpu_ptr(@runqueues)->curr->comm:string",
    "a=+0(this_cpu_ptr(@current_task)):x64[1]",
    "a=(task_struct)+0(this_cpu_ptr(@current_task))->policy",
    "a=(task_struct)($current->real_parent)->comm:string",
    "a=+0((task_struct)($current)->comm):symstr",
];

/// The words of a table: `{}` is an empty one.
fn words(table: &'static str) -> impl Iterator<Item = &'static str> {
    let words = table.split_whitespace();
    words.map(|word| if word == "{}" { "" } else { word })
}

/// Random numbers, the same each time: xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(random).unwrap_or(0) % limit
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// The cases so far, each once.
#[derive(Default)]
struct Cases {
    seen: BTreeSet<String>,
    text: String,
}

impl Cases {
    fn title(&mut self, title: &str) {
        self.text.push_str(&format!("\n# {title}\n\n"));
    }

    /// Adds a case, with the lines that belong to it.
    fn add(&mut self, command: &str, more: &[String]) {
        let case: String = std::iter::once(format!("{command}\n"))
            .chain(more.iter().map(|line| format!("\t{line}\n")))
            .collect();
        // Neither comments, nor of a case above.
        if command.starts_with(['#', '\t']) || command.is_empty() || !self.seen.insert(case.clone())
        {
            return;
        }
        self.text.push_str(&case);
    }

    fn one(&mut self, command: &str) {
        self.add(command, &[]);
    }
}

/// An argument of the grammar.
fn argument(random: &mut Random, index: usize) -> String {
    const BASES: [&str; 16] = [
        "%di",
        "%si",
        "%ax",
        "%r10",
        "$stack",
        "$stack2",
        "$arg1",
        "$arg2",
        "$arg4",
        "@init_uts_ns",
        "@jiffies+4",
        "@init_uts_ns-0x10",
        "@0xffffffff81000000",
        "\\1",
        "\\-0x7f",
        "\\077",
    ];
    const FINE_TYPES: [&str; 17] = [
        "",
        ":u8",
        ":u16",
        ":u32",
        ":u64",
        ":s8",
        ":s16",
        ":s32",
        ":s64",
        ":x8",
        ":x16",
        ":x32",
        ":x64",
        ":char",
        ":symbol",
        ":b5@2/16",
        ":b12@20/32",
    ];
    const OF_MEMORY: [&str; 8] = [
        ":string",
        ":ustring",
        ":u8[4]",
        ":x64[2]",
        ":string[2]",
        ":b2@1/8[3]",
        ":symstr",
        ":s32[64]",
    ];
    const OFFSETS: [&str; 10] = [
        "+0", "-0", "+8", "-16", "+0x10", "+u0", "-u4", "+u0x20", "+010", "+4096",
    ];

    let name = match random.below(3) {
        0 => format!("a{index}="),
        1 => format!("name_{index}="),
        _ => String::new(),
    };
    if random.below(12) == 0 {
        return format!(
            "{name}{}",
            random.of(&["$comm", "$COMM:string", "\\\"text\"", "\\\"\""])
        );
    }
    let base = random.of(&BASES);
    let depth = [0, 0, 1, 1, 1, 2, 3, 6][random.below(8)];
    let mut value = base.to_string();
    for _ in 0..depth {
        value = format!("{}({value})", random.of(&OFFSETS));
    }
    let ty = if (depth > 0 || base.starts_with('@')) && random.below(3) == 0 {
        random.of(&OF_MEMORY)
    } else {
        random.of(&FINE_TYPES)
    };
    format!("{name}{value}{ty}")
}

/// A value within this number of levels: dereferences, typecasts and per-CPU variables.
fn nested(random: &mut Random, levels: usize) -> String {
    const BASES: [&str; 20] = [
        "%di",
        "%none",
        "$stack1",
        "$arg1",
        "$arg2",
        "$retval",
        "$comm",
        "$current",
        "$current->mm",
        "$current->real_parent",
        "file",
        "file->f_inode",
        "task",
        "@current_task",
        "@this_cpu_off",
        "@runqueues",
        "@init_task",
        "@init_task+8",
        "\\1",
        "\\-0x7f",
    ];
    const OFFSETS: [&str; 5] = ["+0", "-8", "+0x10", "+u4", "-u0"];

    let Some(within) = levels.checked_sub(1) else {
        return random.of(&BASES).to_string();
    };
    let value = nested(random, within);
    match random.below(6) {
        0 => return format!("{}({value})", random.of(&OFFSETS)),
        1 => return format!("this_cpu_read({value})"),
        2 => return format!("this_cpu_ptr({value})"),
        _ => {}
    }
    let (name, field, fields) = STRUCTURES[random.below(STRUCTURES.len())];
    let option = match random.below(4) {
        0 => format!(",{field}"),
        _ => String::new(),
    };
    // Without parentheses, the value ends at its first `->`, or where its own parentheses end.
    let value = if value.contains("->") || random.below(2) == 0 {
        format!("({value})")
    } else {
        value
    };
    format!("({name}{option}){value}->{fields}")
}

/// A command whose arguments are nested values.
fn nested_sentence(random: &mut Random) -> String {
    const TYPES: [&str; 12] = [
        "", "", "", "", ":u8", ":x64", ":s32", ":symbol", ":string", ":u8[2]", ":symstr", ":b3@4/8",
    ];

    let (kind, target) = KINDS[random.below(KINDS.len())];
    let target = match (kind, random.below(8)) {
        ("p", 0) => "vfs_read+5",
        ("p", 1) => "vfs_read%return",
        _ => target,
    };
    let mut command = format!("{kind}:ev {target}");
    for index in 0..1 + random.below(2) {
        let levels = [1, 1, 2, 2, 2, 3, 4, 8, 9, 17][random.below(10)];
        let value = nested(random, levels);
        command.push_str(&format!(" a{index}={value}{}", random.of(&TYPES)));
    }
    command
}

/// A sentence of the grammar.
fn sentence(random: &mut Random) -> String {
    let (kind, target) = KINDS[random.below(KINDS.len())];
    let maxactive = match (kind, random.below(3)) {
        ("r", 0) => random.of(&["1", "20", "4096", "0x10"]),
        _ => "",
    };
    let name = random.of(&["", ":ev", ":g/ev", ":g/", ":g.ev", ":Ev_9"]);
    let target = match kind {
        "p" => random.of(&[
            "vfs_read",
            "vfs_read+4",
            "vfs_read+0x5",
            "vfs_write",
            "vfs_read%return",
            "dummy:dummy_xmit",
        ]),
        "r" => random.of(&[
            "vfs_read",
            "vfs_write+0",
            "dummy:dummy_xmit",
            "vfs_read%return",
        ]),
        "t" => random.of(&["task_rename", "kfree", "sched_switch"]),
        _ if target.ends_with("return") => random.of(&["vfs_read%return", "vfs_*%return"]),
        _ => random.of(&["vfs_read", "vfs_*", "vfs_writ?"]),
    };
    let mut command = format!("{kind}{maxactive}{name} {target}");
    for index in 0..[0, 1, 1, 2, 2, 3, 4, 7][random.below(8)] {
        command.push(' ');
        command.push_str(&argument(random, index));
    }
    command
}

/// Pieces that make a sentence wrong.
const PIECES: [&str; 34] = [
    " ",
    "  ",
    ":",
    "/",
    ".",
    "=",
    "+",
    "-",
    "(",
    ")",
    "$",
    "%",
    "@",
    "\\",
    "\"",
    "[",
    "]",
    "0",
    "9",
    "0x",
    "u",
    "-1",
    ",",
    "*",
    "?",
    "%return",
    "$retval:u8",
    "$comm",
    "$stack",
    ":u8",
    ":string",
    "b4@4/8",
    "+0(",
    "[2]",
];

/// Pieces that make a sentence with nested values wrong.
const NESTED_PIECES: [&str; 26] = [
    " ",
    ":",
    "(",
    ")",
    "((",
    "))",
    "-",
    ">",
    "->",
    ".",
    ",",
    "+",
    "$",
    "@",
    "u",
    "8",
    "()",
    "(file)",
    "(file,f_mode)",
    "this_cpu_read(",
    "this_cpu_ptr(",
    "$current",
    "->pid",
    "->f_inode",
    "+8(",
    ":string",
];

/// Removes letters of a sentence or replaces them by pieces, once or twice.
fn mutate(random: &mut Random, sentence: &str, pieces: &[&str]) -> String {
    // The first letter says who reads the rest.
    let (first, rest) = sentence.split_at(1);
    let mut rest = rest.to_string();
    for _ in 0..=random.below(2) {
        let at = random.below(rest.len() + 1);
        let length = random.below(3).min(rest.len() - at);
        match random.below(5) {
            0 => rest.replace_range(at..at + length, ""),
            1 | 2 => rest.insert_str(at, random.of(pieces)),
            3 => rest.replace_range(at..at + length, random.of(pieces)),
            _ => rest.truncate(at),
        }
    }
    format!("{first}{rest}")
}

/// All of them, as the text of a file of cases.
pub fn generate() -> String {
    let mut cases = Cases::default();
    let mut random = Random(0x7072_6f62_6573_2121);
    let in_all = ["in dynamic_events".to_string()];

    cases.title("Every type of every sort of value; and for other kinds of probes, some");
    for value in words(VALUES) {
        for ty in words(TYPES) {
            if !value.contains("$retval") {
                cases.one(&format!("p:ev vfs_read a={value}{ty}"));
            }
            for (kind, target) in &KINDS[1..] {
                if random.below(16) == 0 {
                    cases.one(&format!("{kind}:ev {target} a={value}{ty}"));
                }
            }
        }
    }

    cases.title("Numbers, wherever there are some");
    for place in PLACES_OF_NUMBERS {
        for number in words(NUMBERS) {
            cases.one(&place.replace('#', number));
        }
    }
    for offset in 0..40 {
        cases.one(&format!("p:ev vfs_read+{offset}"));
    }

    cases.title("Names");
    for (kind, target) in KINDS {
        for name in words(NAMES) {
            if kind == "p" || random.below(3) == 0 {
                cases.one(&format!("{kind}{name} {target}"));
            }
        }
    }
    for name in words(ARGUMENT_NAMES) {
        cases.one(&format!("p:ev vfs_read {name}=\\1"));
        cases.one(&format!("f:ev vfs_read \\1 {name}=\\2 {name}=\\3"));
    }

    cases.title("Targets");
    for target in words(TARGETS) {
        for (kind, _) in [KINDS[0], KINDS[1], KINDS[2], KINDS[4]] {
            cases.one(&format!("{kind} {target}"));
            if random.below(3) == 0 {
                cases.one(&format!("{kind}:ev {target} a=\\1"));
            }
        }
    }

    cases.title("Spaces, comments, lines");
    for command in SPACES {
        cases.one(command);
        cases.one(&command.replacen("p:ev", "f:ev", 1));
        cases.add(command, &in_all);
    }

    cases.title("Deletes");
    for delete in DELETES {
        let mut more: Vec<String> = BEFORE_DELETES[1..]
            .iter()
            .copied()
            .chain([delete])
            .map(|command| format!("then {command}"))
            .collect();
        cases.add(BEFORE_DELETES[0], &more);
        more.insert(0, "then f:ev vfs_read a=\\1".to_string());
        more.extend(in_all.clone());
        cases.add("f:g/fev vfs_read", &more);
    }

    cases.title("A second probe of an event");
    for (first, second) in APPENDED {
        for (kind, target) in KINDS {
            let more = [format!("then {kind}:ev {target} {second}")];
            cases.add(&format!("{kind}:ev {target} {first}"), &more);
        }
        let more = [format!("then p:ev vfs_write {second}")];
        cases.add(&format!("p:ev vfs_read {first}"), &more);
    }
    for (kind, target) in KINDS {
        for (other, other_target) in KINDS {
            for arguments in ["", " a=\\1"] {
                let mut more = vec![format!("then {other}:g/ev {other_target}")];
                more.extend(in_all.clone());
                cases.add(&format!("{kind}:g/ev {target}{arguments}"), &more);
            }
        }
    }

    cases.title("Sentences of the grammar");
    for _ in 0..500 {
        let sentence = sentence(&mut random);
        let more = if random.below(6) == 0 {
            &in_all[..]
        } else {
            &[]
        };
        cases.add(&sentence, more);
    }

    cases.title("The same, with something wrong in them");
    for _ in 0..900 {
        let sentence = sentence(&mut random);
        let command = mutate(&mut random, &sentence, &PIECES);
        cases.one(&command);
    }

    cases.title("Parameters, fields and types by name");
    for argument in words(BTF_ARGUMENTS) {
        cases.one(&format!("p:ev vfs_read {argument}"));
        cases.one(&format!("f:ev vfs_read {argument} b=\\1"));
        if random.below(2) == 0 {
            cases.one(&format!("r:ev vfs_read b=\\1 {argument}"));
            cases.one(&format!("f:ev vfs_read%return {argument}"));
            cases.one(&format!("t:ev task_rename {argument}"));
        }
    }
    for argument in words(BTF_RETURNS) {
        for (kind, target) in KINDS {
            cases.one(&format!("{kind}:ev {target} {argument}"));
        }
    }
    for command in BTF_TARGETS {
        cases.one(command);
    }
    for argument in [
        "$arg*",
        "file->f_mode count",
        "file->f_path.dentry->d_name.name:string",
        "$arg3",
        "a=pos",
    ] {
        for (kind, target) in &KINDS[..4] {
            cases.add(
                &format!("{kind}:ev {target} {argument}"),
                &["run read".to_string()],
            );
        }
    }
    for argument in [
        "$arg*",
        "task",
        "comm",
        "a=comm:string",
        "task->pid",
        "task->comm:string",
        "$arg2",
    ] {
        cases.add(
            &format!("t:ev task_rename {argument}"),
            &["run comm".to_string()],
        );
    }

    cases.title("Typecasts, per-CPU variables and the current task, around every sort of value");
    for level in words(LEVELS) {
        for value in words(WITHIN_LEVELS) {
            let argument = level.replace('#', value);
            if !value.contains("$retval") {
                cases.one(&format!("p:ev vfs_read a={argument}"));
            }
            for (kind, target) in &KINDS[1..] {
                if random.below(24) == 0 {
                    cases.one(&format!("{kind}:ev {target} a={argument}"));
                }
            }
            if random.below(24) == 0 {
                cases.one(&format!("p:ev vfs_read+5 a={argument}"));
            }
        }
    }
    for _ in 0..200 {
        let sentence = nested_sentence(&mut random);
        cases.one(&sentence);
        let command = mutate(&mut random, &sentence, &NESTED_PIECES);
        cases.one(&command);
    }
    for argument in STABLE {
        for (kind, target) in KINDS {
            let run = if kind == "t" { "run comm" } else { "run read" };
            cases.add(
                &format!("{kind}:ev {target} {argument}"),
                &[run.to_string()],
            );
        }
    }

    cases.title("Long expressions");
    for expression in LONG {
        for length in [64, 255, 256] {
            let letters = "x".repeat(length + 1 - expression.len());
            cases.one(&format!(
                "p:ev vfs_read a={}",
                expression.replace('#', &letters)
            ));
        }
    }
    cases.text
}
