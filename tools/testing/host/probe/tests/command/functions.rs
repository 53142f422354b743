// SPDX-License-Identifier: GPL-2.0

//! Arguments of functions that BTF has: names, fields, types.

use std::sync::OnceLock;

use probe::{
    argument::{
        Argument,
        Base, //
    },
    btf::{
        Btf,
        Sections, //
    },
    command::{
        Error,
        EventsFile,
        TypeInfo, //
    },
    error::{
        Errno,
        ErrorKind::*, //
    },
    types::{
        Bits,
        FetchType::{
            self,
            Bitfield,
            Number, //
        },
        Space,
        Style::*,
        Width::*, //
    },
};

use crate::builder;

use super::{
    create_at,
    derefs,
    errors::unmark,
    limits::nested, //
};

/// The BTF that the tests of module `btf` have.
pub fn btf() -> &'static Btf<'static> {
    static BTF: OnceLock<Btf<'static>> = OnceLock::new();
    BTF.get_or_init(|| {
        let sections = Sections::parse(builder::everything().bytes().leak(), None).unwrap();
        let index = vec![0; sections.slots().unwrap()].leak();
        sections.index(index).unwrap()
    })
}

/// What is known of a function; the targets of the commands do not matter.
pub fn types_of(function: &str) -> TypeInfo<'static> {
    TypeInfo::Function(btf().function(function).unwrap())
}

/// The only argument of a command, of a function that BTF has.
fn argument(line: &str, function: &str) -> Result<Argument<'static>, Error> {
    let whole = create_at(
        EventsFile::DynamicEvents,
        line.to_string().leak(),
        types_of(function),
    )?;
    let [argument] = &whole.arguments[..] else {
        panic!("{line}");
    };
    Ok(argument.clone())
}

#[test]
fn a_name_is_an_argument_with_its_type_and_fields() {
    let string = FetchType::String(Space::Kernel);
    for (text, base, offsets, ty) in [
        ("file", Base::Argument(0), &[][..], Number(W8, Hex)),
        ("buf", Base::Argument(1), &[], Number(W8, Hex)),
        ("count", Base::Argument(2), &[], Number(W8, Unsigned)),
        ("count:s32", Base::Argument(2), &[], Number(W4, Signed)),
        ("file->f_path.mnt", Base::Argument(0), &[8], Number(W8, Hex)),
        (
            "file->f_path.dentry->d_flags",
            Base::Argument(0),
            &[16, 0],
            Number(W4, Signed),
        ),
        (
            "file->f_path.dentry->hash",
            Base::Argument(0),
            &[16, 20],
            Number(W8, Unsigned),
        ),
        // A string is in an array, or behind a pointer.
        ("buf:string", Base::Argument(1), &[0], string),
        (
            "buf:ustring",
            Base::Argument(1),
            &[0],
            FetchType::String(Space::User),
        ),
        (
            "file->f_path.dentry->d_iname:string",
            Base::Argument(0),
            &[16, 4],
            string,
        ),
        (
            "file->f_path.mnt:string",
            Base::Argument(0),
            &[8, 0],
            string,
        ),
        // What is dereferenced by hand has no type.
        ("+8(file)", Base::Argument(0), &[8], Number(W8, Hex)),
        (
            "+4(file->f_path.dentry)",
            Base::Argument(0),
            &[16, 4],
            Number(W8, Hex),
        ),
        ("+0(count):string", Base::Argument(2), &[0], string),
        (
            "file->f_bits.high",
            Base::Argument(0),
            &[24],
            Bitfield(W4, Signed, Bits { left: 0, right: 3 }),
        ),
        (
            "file->f_bits.low:u8",
            Base::Argument(0),
            &[24],
            Number(W1, Unsigned),
        ),
    ] {
        let argument = argument(&format!("p vfs_read {text}"), "vfs_read").expect(text);
        let derefs = derefs(&argument.fetch).into_iter();
        let found: Vec<i32> = derefs.map(|deref| deref.offset).collect();
        assert_eq!(
            (argument.fetch.base, &found[..], argument.ty),
            (base, offsets, ty),
            "{text}"
        );
    }
    let array = argument("p vfs_read file->f_path.dentry->d_iname:u8[4]", "vfs_read").unwrap();
    assert_eq!(array.count.map(|count| count.get()), Some(4));
}

#[test]
fn a_user_string_is_in_user_memory_behind_its_pointer() {
    let spaces = |text: &str| {
        let argument = argument(&format!("p vfs_read {text}"), "vfs_read").unwrap();
        let derefs = derefs(&argument.fetch).into_iter();
        derefs.map(|deref| deref.space).collect::<Vec<_>>()
    };
    assert_eq!(spaces("buf:ustring"), [Space::User]);
    assert_eq!(
        spaces("file->f_path.mnt:ustring"),
        [Space::Kernel, Space::User]
    );
    assert_eq!(
        spaces("file->f_path.mnt:string"),
        [Space::Kernel, Space::Kernel]
    );
}

#[test]
fn a_return_has_its_value_and_the_arguments_of_its_entry() {
    for (line, base, ty) in [
        ("r vfs_read $retval", Base::ReturnValue, Number(W4, Signed)),
        ("f vfs_read $retval", Base::ReturnValue, Number(W4, Signed)),
        (
            "r vfs_read count",
            Base::EntryArgument(2),
            Number(W8, Unsigned),
        ),
        (
            "f vfs_read%return $arg3",
            Base::EntryArgument(2),
            Number(W8, Unsigned),
        ),
        (
            "r vfs_read a=$arg3",
            Base::EntryArgument(2),
            Number(W8, Hex),
        ),
    ] {
        let argument = argument(line, "vfs_read").expect(line);
        assert_eq!((argument.fetch.base, argument.ty), (base, ty), "{line}");
    }
    let field = argument("r printk $retval->d_flags", "printk").unwrap();
    assert_eq!(field.fetch.base, Base::ReturnValue);
    assert_eq!(field.ty, Number(W4, Signed));
}

#[test]
fn a_tracepoint_calls_with_an_argument_of_its_own_in_front() {
    let TypeInfo::Function(function) = types_of("vfs_read") else {
        panic!();
    };
    let types = TypeInfo::Function(function.of_tracepoint());
    let whole = create_at(EventsFile::DynamicEvents, "t vfs_read $arg* x=$arg1", types).unwrap();
    assert_eq!(
        whole.listing(),
        "t:tracepoints/vfs_read vfs_read buf=buf count=count x=$arg1"
    );
    let bases: Vec<_> = whole
        .arguments
        .iter()
        .map(|argument| argument.fetch.base)
        .collect();
    assert_eq!(
        bases,
        [Base::Argument(1), Base::Argument(2), Base::Argument(1)]
    );
}

#[test]
fn what_btf_does_not_allow_is_told_where_it_stands() {
    for (marked, function, kind, errno) in [
        ("p vfs_read ^hoge", "vfs_read", NoBtfarg, Errno::ENOENT),
        ("p vfs_read +8(^hoge)", "vfs_read", NoBtfarg, Errno::ENOENT),
        ("p vfs_read ^hoge", "nothing", NoBtfEntry, Errno::ENOENT),
        ("p vfs_read+4 ^file", "vfs_read", NosupBtfarg, Errno::EINVAL),
        (
            "p vfs_read a=file->^hoge",
            "vfs_read",
            NoBtfField,
            Errno::ENOENT,
        ),
        (
            "p vfs_read file->f_path.dentry->^hoge",
            "vfs_read",
            NoBtfField,
            Errno::ENOENT,
        ),
        (
            "p vfs_read file^-.hoge",
            "vfs_read",
            BadHyphen,
            Errno::EINVAL,
        ),
        (
            "p vfs_read file.^hoge",
            "vfs_read",
            NosupDatArg,
            Errno::EOPNOTSUPP,
        ),
        (
            "p vfs_read count->^hoge",
            "vfs_read",
            NoPtrStrct,
            Errno::EINVAL,
        ),
        (
            "p vfs_read ^file:string",
            "vfs_read",
            BadType4str,
            Errno::EINVAL,
        ),
        (
            "p vfs_read ^count:ustring",
            "vfs_read",
            BadType4str,
            Errno::EINVAL,
        ),
        (
            "p vfs_read ^$retval",
            "vfs_read",
            RetvalOnProbe,
            Errno::EINVAL,
        ),
        (
            "p vfs_read (file)%ax^",
            "vfs_read",
            TypecastReqField,
            Errno::EINVAL,
        ),
        ("r vfs_read ^$retval", "nothing", NoRetval, Errno::ENOENT),
        ("r vfs_read ^$retvals", "vfs_read", NoBtfarg, Errno::ENOENT),
        ("r vfs_read ^$retvals", "nothing", NoBtfEntry, Errno::ENOENT),
        (
            "r vfs_read $retval->^hoge",
            "vfs_read",
            NoPtrStrct,
            Errno::EINVAL,
        ),
        (
            "r printk $retval->^hoge",
            "printk",
            NoBtfField,
            Errno::ENOENT,
        ),
        (
            "r printk $retval.^hoge",
            "printk",
            NosupDatArg,
            Errno::EOPNOTSUPP,
        ),
    ] {
        let (line, column) = unmark(marked);
        let error = argument(&line, function).unwrap_err();
        assert_eq!(
            (error.at.column(&line), error.kind, error.errno),
            (column, kind, errno),
            "{marked}"
        );
    }
}

#[test]
fn a_function_that_btf_does_not_know_has_a_return_value_only() {
    let create = |line| create_at(EventsFile::KprobeEvents, line, TypeInfo::Unknown(*btf()));
    let whole = create("r vfs_read $retval a=$arg1").unwrap();
    assert_eq!(whole.arguments[0].ty, Number(W8, Hex));
    for (line, kind) in [
        ("r vfs_read $retval->a", NoBtfEntry),
        ("r vfs_read $retvals", NoBtfEntry),
        ("p vfs_read file", NoBtfEntry),
    ] {
        let error = create(line).unwrap_err();
        assert_eq!((error.kind, error.errno), (kind, Errno::ENOENT), "{line}");
    }
}

#[test]
fn the_steps_of_fields_count() {
    // There are 16 steps: each `->` is one.
    let with_field = |steps: usize| {
        let text = nested(steps, "file->f_path.mnt", ":u8");
        argument(&format!("p vfs_read a={text}"), "vfs_read").map(|_| ())
    };
    assert_eq!(with_field(15), Ok(()));
    assert_eq!(with_field(16).unwrap_err().kind, TooManyOps);
    let without = |steps: usize| {
        let text = nested(steps, "buf", ":u8");
        argument(&format!("p vfs_read {text}"), "vfs_read").map(|_| ())
    };
    assert_eq!(without(16), Ok(()));
    assert_eq!(without(17).unwrap_err().kind, TooManyOps);
}

#[test]
fn what_needs_no_signature_does_not_ask_for_one() {
    use probe::command::{
        parse,
        Line, //
    };

    for (line, needs) in [
        (
            "p vfs_read %ax a=$stack0 $comm @jiffies +0(%di):string",
            false,
        ),
        ("p vfs_read a=$arg1 +8($arg2) \\1 b=\\\"file\"", false),
        ("p vfs_read", false),
        ("p vfs_read $arg1", true),
        ("p vfs_read $arg*", true),
        ("p vfs_read a=file", true),
        ("p vfs_read a=+8(-4(_x->y))", true),
        ("p vfs_read a=+8(x(+4(%ax)))", true),
        ("r vfs_read a=+0($retval)", true),
        ("p vfs_read (x)%ax", true),
    ] {
        let Ok(Line::Create(command)) = parse(line) else {
            panic!("{line}");
        };
        let needed = command.arguments().any(|argument| argument.needs_types());
        assert_eq!(needed, needs, "{line}");
    }
}

#[test]
fn the_structures_of_a_command_are_those_of_its_typecasts() {
    use probe::command::{
        parse,
        Line, //
    };

    for (line, expected) in [
        ("p vfs_read file +0(buf):string $arg1", &[][..]),
        ("p vfs_read a=this_cpu_read(x) +0(this_cpu_ptr(y))", &[]),
        ("p vfs_read a=(file)buf->x", &["file"]),
        (
            "p vfs_read (file,f_path)buf->x b=(dentry)%di->*",
            &["file", "dentry"],
        ),
        ("p vfs_read (a)(x)->y", &["a"]),
        ("p vfs_read (a)((b)+8((c)x->y)->z)->*", &["a", "b", "c"]),
        ("p vfs_read this_cpu_read((a)x->y)", &["a"]),
        ("p vfs_read (a.b)x->y ()x->y (a", &[]),
    ] {
        let Ok(Line::Create(command)) = parse(line) else {
            panic!("{line}");
        };
        let written: Vec<_> = command.arguments().collect();
        let structures = written.iter().flat_map(|argument| argument.structures());
        let structures: Vec<&str> = structures.collect();
        assert_eq!(structures, expected, "{line}");
    }
}
