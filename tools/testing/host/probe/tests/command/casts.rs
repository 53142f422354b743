// SPDX-License-Identifier: GPL-2.0

//! Typecasts, per-CPU variables, `$current`, and pointers to user memory.

use probe::{
    arch::x86_64::register,
    argument::{
        Argument,
        Base,
        Deref,
        Step, //
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
        ErrorKind::{
            self,
            *, //
        },
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

use crate::builder::Builder;

use super::{
    create_at,
    errors::unmark,
    functions::{
        btf,
        types_of, //
    }, //
};

const EINVAL: Errno = Errno::EINVAL;
const ENOENT: Errno = Errno::ENOENT;
const E2BIG: Errno = Errno::E2BIG;
const EOPNOTSUPP: Errno = Errno::EOPNOTSUPP;

const CPU: Step = Step::ThisCpu;

/// Reads kernel memory.
const fn k(offset: i32) -> Step {
    Step::Deref(Deref {
        space: Space::Kernel,
        offset,
    })
}

/// Reads user memory.
const fn u(offset: i32) -> Step {
    Step::Deref(Deref {
        space: Space::User,
        offset,
    })
}

const X64: FetchType = Number(W8, Hex);
const S32: FetchType = Number(W4, Signed);
const STRING: FetchType = FetchType::String(Space::Kernel);
const USTRING: FetchType = FetchType::String(Space::User);

/// The only argument of a command.
fn parse(line: &str, types: TypeInfo<'static>) -> Result<Argument<'static>, Error> {
    let line = line.to_string().leak();
    let mut whole = create_at(EventsFile::DynamicEvents, line, types)?;
    assert_eq!(whole.arguments.len(), 1, "{line}");
    Ok(whole.arguments.remove(0))
}

type Fetched<'a> = (&'a str, Base<'static>, &'a [Step], FetchType);

/// Each argument has this base, these steps and this type.
fn assert_fetches(probe: &str, types: TypeInfo<'static>, cases: &[Fetched<'_>]) {
    for &(text, base, steps, ty) in cases {
        let line = format!("{probe} {text}");
        let argument = parse(&line, types).expect(&line);
        assert_eq!(
            (
                argument.fetch.base,
                argument.fetch.steps.as_slice(),
                argument.ty
            ),
            (base, steps, ty),
            "{line}"
        );
    }
}

/// Each line has this error at its `^`.
fn assert_errors(types: TypeInfo<'static>, cases: &[(&str, ErrorKind, Errno)]) {
    for &(marked, kind, errno) in cases {
        let (line, column) = unmark(marked);
        let error = parse(&line, types).expect_err(marked);
        assert_eq!(
            (error.kind, error.errno, error.at.column(&line)),
            (kind, errno, column),
            "{marked}"
        );
    }
}

#[test]
fn a_typecast_reads_fields_of_any_value() {
    let file = Base::Argument(0);
    let buf = Base::Argument(1);
    assert_fetches(
        "p vfs_read",
        types_of("vfs_read"),
        &[
            ("(file)buf->f_path.dentry", buf, &[k(16)], X64),
            (
                "(file)buf->f_path.mnt:u8",
                buf,
                &[k(8)],
                Number(W1, Unsigned),
            ),
            // With parentheses and without it is the same.
            (
                "(file)file->f_path.dentry->d_flags",
                file,
                &[k(16), k(0)],
                S32,
            ),
            (
                "(file)(file)->f_path.dentry->d_flags",
                file,
                &[k(16), k(0)],
                S32,
            ),
            (
                "(dentry)((file)file->f_path.dentry)->d_flags",
                file,
                &[k(16), k(0)],
                S32,
            ),
            (
                "(dentry)(file->f_path.dentry)->d_iname:string",
                file,
                &[k(16), k(4)],
                STRING,
            ),
            ("(dentry)(+8(file))->d_flags", file, &[k(8), k(0)], S32),
            ("(dentry)+8(file)->d_flags", file, &[k(8), k(0)], S32),
            ("(dentry)-8(file)->d_flags", file, &[k(-8), k(0)], S32),
            ("(dentry)+u8(file)->len", file, &[u(8), k(20)], S32),
            ("(dentry)+0(+8(file))->len", file, &[k(8), k(0), k(20)], S32),
            // A dereference ends at its own brace.
            (
                "(dentry)+8((file)buf->f_path.mnt)->len",
                buf,
                &[k(8), k(8), k(20)],
                S32,
            ),
            ("+8((file)buf->f_path.mnt)", buf, &[k(8), k(8)], X64),
            (
                "+8((file)buf->f_path.mnt):string",
                buf,
                &[k(8), k(8)],
                STRING,
            ),
            // A pointer to a string is followed.
            ("(file)file->f_path.mnt:string", file, &[k(8), k(0)], STRING),
            (
                "(file)file->f_path.mnt:ustring",
                file,
                &[k(8), u(0)],
                USTRING,
            ),
            (
                "(file)file->f_path.mnt:symbol",
                file,
                &[k(8)],
                Number(W8, Symbol),
            ),
            (
                "(file)file->f_path.mnt:symstr",
                file,
                &[k(8)],
                FetchType::Symstr,
            ),
            // A structure has no type.
            ("(file)file->f_path", file, &[k(8)], X64),
            (
                "(file)file->f_bits.high",
                file,
                &[k(24)],
                Bitfield(W4, Signed, Bits { left: 0, right: 3 }),
            ),
            (
                "(file)file->f_bits.high:b4@4/8",
                file,
                &[k(24)],
                Bitfield(W1, Unsigned, Bits { left: 0, right: 4 }),
            ),
            // Any base.
            (
                "(file)%di->f_path.mnt",
                Base::Register(register("di").unwrap()),
                &[k(8)],
                X64,
            ),
            ("(file)$arg3->f_path.mnt", Base::Argument(2), &[k(8)], X64),
            ("(file)count->f_path.mnt", Base::Argument(2), &[k(8)], X64),
            ("(file)$stack->f_path.mnt", Base::StackPointer, &[k(8)], X64),
            ("(file)$stack2->f_path.mnt", Base::Stack(2), &[k(8)], X64),
            ("(file)$current->f_path.mnt", Base::Current, &[k(8)], X64),
            (
                "(file)@sym->f_path.mnt",
                Base::Symbol("sym"),
                &[k(0), k(8)],
                X64,
            ),
            (
                "(file)(@sym+8)->f_path.mnt",
                Base::Symbol("sym+8"),
                &[k(0), k(8)],
                X64,
            ),
            (
                "(file)(@sym-8)->f_path.mnt",
                Base::Symbol("sym-8"),
                &[k(0), k(8)],
                X64,
            ),
            (
                "(file)@0x10->f_path.mnt",
                Base::Immediate(16),
                &[k(0), k(8)],
                X64,
            ),
            ("(file)\\16->f_path.mnt", Base::Immediate(16), &[k(8)], X64),
            (
                "(file)(\\-16)->f_path.mnt",
                Base::Immediate(-16i64 as u64),
                &[k(8)],
                X64,
            ),
            // As in C, a typecast is no dereference of the name.
            ("(file)$comm->f_path.mnt", Base::Comm, &[k(8)], X64),
            (
                "(file)\\\"text\"->f_path.mnt",
                Base::Text("text"),
                &[k(8)],
                X64,
            ),
            // As in C, what follows the brace of a dereference does not matter.
            ("+0((file)buf->f_path.mnt)->x", buf, &[k(8), k(0)], X64),
        ],
    );
}

#[test]
fn a_typecast_with_a_field_goes_back_to_the_structure() {
    let file = Base::Argument(0);
    assert_fetches(
        "p vfs_read",
        types_of("vfs_read"),
        &[
            (
                "(file,f_path)file->f_bits.low",
                file,
                &[k(16)],
                Bitfield(
                    W4,
                    Signed,
                    Bits {
                        left: 29,
                        right: 29,
                    },
                ),
            ),
            ("(file,f_path.dentry)file->f_path", file, &[k(-8)], X64),
            (
                "(file,f_path.mnt)file->f_path.dentry->len",
                file,
                &[k(8), k(20)],
                S32,
            ),
            ("(file,f_void)(file)->f_path.mnt", file, &[k(-24)], X64),
            // The field of the inner typecast is not that of the outer one.
            (
                "(dentry)((file,f_path)file->f_path.dentry)->len",
                file,
                &[k(8), k(20)],
                S32,
            ),
            (
                "(dentry,len)((file)file->f_path.dentry)->len",
                file,
                &[k(16), k(0)],
                S32,
            ),
            (
                "(dentry,hash)(file->f_path.dentry)->d_flags",
                file,
                &[k(16), k(-20)],
                S32,
            ),
            (
                "(task_struct,group_leader)$current->pid",
                Base::Current,
                &[k(-32)],
                S32,
            ),
            (
                "(task_struct,se.group_node)$current->pid",
                Base::Current,
                &[k(-48)],
                S32,
            ),
            // Bits that start at a byte have an address.
            (
                "(task_struct,in_bytes)$current->pid",
                Base::Current,
                &[k(-5)],
                S32,
            ),
        ],
    );
}

#[test]
fn the_current_task_is_a_value_with_fields() {
    const CASES: &[Fetched<'static>] = &[
        ("$current", Base::Current, &[], X64),
        ("$current:u32", Base::Current, &[], Number(W4, Unsigned)),
        ("+8($current):string", Base::Current, &[k(8)], STRING),
        ("$current->pid", Base::Current, &[k(0)], S32),
        ("$current->comm:string", Base::Current, &[k(8)], STRING),
        (
            "$current->parent->comm:string",
            Base::Current,
            &[k(24), k(8)],
            STRING,
        ),
        ("$current->se.group_node.next", Base::Current, &[k(48)], X64),
        (
            "$current->in_execve",
            Base::Current,
            &[k(4)],
            Bitfield(
                W4,
                Signed,
                Bits {
                    left: 30,
                    right: 31,
                },
            ),
        ),
        ("+4($current->parent)", Base::Current, &[k(24), k(4)], X64),
    ];
    const CAST: &[Fetched<'static>] = &[
        ("(task_struct)$current->pid", Base::Current, &[k(0)], S32),
        ("(task_struct)($current)->pid", Base::Current, &[k(0)], S32),
        (
            "(task_struct)($current->parent)->pid",
            Base::Current,
            &[k(24), k(0)],
            S32,
        ),
        (
            "(dentry)((task_struct)$current->parent)->len",
            Base::Current,
            &[k(24), k(20)],
            S32,
        ),
    ];
    for probe in [
        "p vfs_read",
        "r vfs_read",
        "p vfs_read%retinsn",
        "f vfs_read",
        "f vfs_read%return",
        "t vfs_read",
    ] {
        for types in [types_of("vfs_read"), TypeInfo::Unknown(*btf())] {
            assert_fetches(probe, types, CASES);
            assert_fetches(probe, types, CAST);
        }
    }
    // It is also the current task within a function, where there are no typecasts.
    for probe in ["p vfs_read+4", "p 0xffff"] {
        assert_fetches(probe, TypeInfo::Unknown(*btf()), CASES);
    }
    assert_fetches("p vfs_read", TypeInfo::Unsupported, &CASES[..3]);
    // In an event probe, a string is not the default type of an argument.
    let numbers = CASES.iter().filter(|(_, _, _, ty)| *ty != STRING);
    let numbers: Vec<Fetched<'_>> = numbers.copied().collect();
    assert_fetches("e a/b", super::events::types(), &numbers);
    assert_fetches("e a/b", super::events::types(), CAST);
}

#[test]
fn a_per_cpu_variable_is_read_or_its_address_taken() {
    const CASES: &[Fetched<'static>] = &[
        // `@SYM` is the variable itself.
        ("this_cpu_ptr(@sym)", Base::Symbol("sym"), &[CPU], X64),
        ("this_cpu_ptr(@sym+8)", Base::Symbol("sym+8"), &[CPU], X64),
        ("this_cpu_ptr(@0x10)", Base::Immediate(16), &[CPU], X64),
        (
            "this_cpu_read(@sym)",
            Base::Symbol("sym"),
            &[CPU, k(0)],
            X64,
        ),
        (
            "this_cpu_read(@sym-8):s32",
            Base::Symbol("sym-8"),
            &[CPU, k(0)],
            S32,
        ),
        // It is read where it is within something else.
        (
            "this_cpu_ptr(+0(@sym))",
            Base::Symbol("sym"),
            &[k(0), k(0), CPU],
            X64,
        ),
        (
            "this_cpu_ptr(this_cpu_ptr(@sym))",
            Base::Symbol("sym"),
            &[CPU, CPU],
            X64,
        ),
        (
            "this_cpu_ptr(this_cpu_read(@sym))",
            Base::Symbol("sym"),
            &[CPU, k(0), CPU],
            X64,
        ),
        (
            "+4(this_cpu_ptr(@sym)):u32[4]",
            Base::Symbol("sym"),
            &[CPU, k(4)],
            Number(W4, Unsigned),
        ),
        (
            "+u4(this_cpu_read(@sym)):u8",
            Base::Symbol("sym"),
            &[CPU, k(0), u(4)],
            Number(W1, Unsigned),
        ),
        ("this_cpu_ptr(\\16)", Base::Immediate(16), &[CPU], X64),
        (
            "this_cpu_ptr($stack1):symbol",
            Base::Stack(1),
            &[CPU],
            Number(W8, Symbol),
        ),
        (
            "this_cpu_ptr(@sym):b4@4/8",
            Base::Symbol("sym"),
            &[CPU],
            Bitfield(W1, Unsigned, Bits { left: 0, right: 4 }),
        ),
        ("this_cpu_read($current)", Base::Current, &[CPU, k(0)], X64),
        // A read is a dereference.
        (
            "this_cpu_read(@sym):string",
            Base::Symbol("sym"),
            &[CPU, k(0)],
            STRING,
        ),
        (
            "this_cpu_read(@sym):ustring",
            Base::Symbol("sym"),
            &[CPU, k(0)],
            USTRING,
        ),
        (
            "this_cpu_read(@sym):symstr",
            Base::Symbol("sym"),
            &[CPU, k(0)],
            FetchType::Symstr,
        ),
        (
            "this_cpu_read(@sym):u64[3]",
            Base::Symbol("sym"),
            &[CPU, k(0)],
            Number(W8, Unsigned),
        ),
        // As in C, what follows the brace does not matter.
        ("this_cpu_ptr(@sym)->x", Base::Symbol("sym"), &[CPU], X64),
    ];
    for probe in [
        "p vfs_read",
        "p vfs_read+4",
        "p 0xffff",
        "r vfs_read",
        "p vfs_read%retinsn",
        "f vfs_read",
        "f vfs_read%return",
        "t vfs_read",
    ] {
        for types in [TypeInfo::Unsupported, TypeInfo::Unknown(*btf())] {
            assert_fetches(probe, types, CASES);
        }
    }
    let file = Base::Argument(0);
    assert_fetches(
        "f vfs_read",
        types_of("vfs_read"),
        &[
            ("this_cpu_ptr(file)", file, &[CPU], X64),
            (
                "this_cpu_read(file):u8",
                file,
                &[CPU, k(0)],
                Number(W1, Unsigned),
            ),
            (
                "this_cpu_read(file->f_path.mnt)",
                file,
                &[k(8), CPU, k(0)],
                X64,
            ),
            (
                "this_cpu_read((file,f_path)file->f_path.mnt)",
                file,
                &[k(0), CPU, k(0)],
                X64,
            ),
            (
                "(dentry)this_cpu_ptr(@sym)->len",
                Base::Symbol("sym"),
                &[CPU, k(20)],
                S32,
            ),
            (
                "(dentry)this_cpu_read(@sym)->len",
                Base::Symbol("sym"),
                &[CPU, k(0), k(20)],
                S32,
            ),
            (
                "(dentry)(this_cpu_ptr(@sym))->len",
                Base::Symbol("sym"),
                &[CPU, k(20)],
                S32,
            ),
            (
                "(dentry)this_cpu_ptr((file)file->f_path.mnt)->len",
                file,
                &[k(8), CPU, k(20)],
                S32,
            ),
        ],
    );
}

#[test]
fn a_return_has_typecasts_of_its_value_and_of_its_entry() {
    let returned = Base::ReturnValue;
    for probe in ["r vfs_read", "f vfs_read%return"] {
        assert_fetches(
            probe,
            types_of("vfs_read"),
            &[
                ("(dentry)$retval->len", returned, &[k(20)], S32),
                ("(dentry)($retval)->len", returned, &[k(20)], S32),
                (
                    "(file)file->f_path.dentry->len",
                    Base::EntryArgument(0),
                    &[k(16), k(20)],
                    S32,
                ),
                ("(dentry)$arg3->len", Base::EntryArgument(2), &[k(20)], S32),
                (
                    "this_cpu_read(file)",
                    Base::EntryArgument(0),
                    &[CPU, k(0)],
                    X64,
                ),
                ("this_cpu_ptr($retval)", returned, &[CPU], X64),
            ],
        );
    }
    assert_fetches(
        "p vfs_read%retinsn",
        types_of("vfs_read"),
        &[
            ("(dentry)$retval->len", returned, &[k(20)], S32),
            ("(dentry)$exit->len", Base::Exit, &[k(20)], S32),
            ("$caller", Base::Caller, &[], X64),
            ("$caller:symstr", Base::Caller, &[], FetchType::Symstr),
        ],
    );
    // The value that is returned makes it a probe of the exit.
    assert_fetches(
        "f vfs_read",
        types_of("vfs_read"),
        &[
            ("(dentry)$retval->len", returned, &[k(20)], S32),
            ("this_cpu_ptr($retval)", returned, &[CPU], X64),
        ],
    );
    // BTF does not have the function.
    assert_fetches(
        "r vfs_read",
        TypeInfo::Unknown(*btf()),
        &[("(dentry)$retval->len", returned, &[k(20)], S32)],
    );
    assert_errors(
        types_of("nothing"),
        &[("r vfs_read (dentry)^$retval->len", NoRetval, ENOENT)],
    );
    assert_errors(
        types_of("vfs_read"),
        &[
            (
                "p vfs_read%retinsn (file)^file->f_path",
                EntryOnRetinsn,
                EINVAL,
            ),
            (
                "p vfs_read%retinsn this_cpu_ptr(^$arg1)",
                EntryOnRetinsn,
                EINVAL,
            ),
            ("p vfs_read (dentry)^$retval->len", RetvalOnProbe, EINVAL),
            ("t vfs_read (dentry)^$retval->len", RetvalOnProbe, EINVAL),
            (
                "t vfs_read +0((dentry)(^$retval)->len)",
                RetvalOnProbe,
                EINVAL,
            ),
            (
                "r vfs_read (dentry)^$elapsed->len",
                ElapsedCantDeref,
                EINVAL,
            ),
            (
                "r vfs_read this_cpu_ptr(^$elapsed)",
                ElapsedCantDeref,
                EINVAL,
            ),
            ("r vfs_read $retval->^len", NoPtrStrct, EINVAL),
        ],
    );
}

#[test]
fn a_tracepoint_has_typecasts_of_its_arguments() {
    let TypeInfo::Function(function) = types_of("vfs_read") else {
        panic!();
    };
    assert_fetches(
        "t vfs_read",
        TypeInfo::Function(function.of_tracepoint()),
        &[
            ("(file)buf->f_path.mnt", Base::Argument(1), &[k(8)], X64),
            ("(file)$arg1->f_path.mnt", Base::Argument(1), &[k(8)], X64),
            ("this_cpu_read(buf)", Base::Argument(1), &[CPU, k(0)], X64),
        ],
    );
}

#[test]
fn a_pointer_to_user_memory_is_followed_there() {
    let (name, how, task) = (Base::Argument(0), Base::Argument(1), Base::Argument(2));
    assert_fetches(
        "p sys_open",
        types_of("sys_open"),
        &[
            ("how", how, &[], X64),
            ("how->f_path.mnt", how, &[u(8)], X64),
            // Only the pointer with the tag points there.
            ("how->f_path.dentry->d_flags", how, &[u(16), k(0)], S32),
            ("task->user_file->f_path.mnt", task, &[k(64), u(8)], X64),
            (
                "$current->user_file->f_path.mnt",
                Base::Current,
                &[k(64), u(8)],
                X64,
            ),
            (
                "how->f_bits.low",
                how,
                &[u(24)],
                Bitfield(
                    W4,
                    Signed,
                    Bits {
                        left: 29,
                        right: 29,
                    },
                ),
            ),
            // A string is there as well, whatever its type says.
            ("name:string", name, &[u(0)], STRING),
            ("name:ustring", name, &[u(0)], USTRING),
            (
                "$current->user_name:string",
                Base::Current,
                &[k(56), u(0)],
                STRING,
            ),
            ("how->f_path.mnt:string", how, &[u(8), k(0)], STRING),
            ("how->f_path.mnt:ustring", how, &[u(8), u(0)], USTRING),
            // A typecast takes the memory of its value.
            ("(file)how->f_path.mnt", how, &[u(8)], X64),
            ("(file)(how)->f_path.mnt", how, &[u(8)], X64),
            ("(dentry)name->len", name, &[u(20)], S32),
            (
                "(file,f_path)how->f_bits.high",
                how,
                &[u(16)],
                Bitfield(W4, Signed, Bits { left: 0, right: 3 }),
            ),
            (
                "(dentry)((task_struct)task->user_name)->len",
                task,
                &[k(56), u(20)],
                S32,
            ),
            (
                "(dentry)(how->f_path.dentry)->len",
                how,
                &[u(16), k(20)],
                S32,
            ),
            // What the command says is where it is read.
            ("+0(name)", name, &[k(0)], X64),
            ("+0(name):string", name, &[k(0)], STRING),
            ("(dentry)+0(name)->len", name, &[k(0), k(20)], S32),
            ("(dentry)this_cpu_ptr(name)->len", name, &[CPU, k(20)], S32),
            // BTF does not say so of a number.
            ("(dentry)$arg1->len", name, &[k(20)], S32),
        ],
    );
    // A tag of the parameter itself says nothing of the memory that it points to.
    assert_fetches(
        "p vfs_read",
        types_of("vfs_read"),
        &[("file->f_path.mnt", Base::Argument(0), &[k(8)], X64)],
    );
    // As for `+u0`, there are no arrays and no symbols.
    assert_errors(
        types_of("sys_open"),
        &[
            ("p sys_open how->f_path.mnt:^u8[4]", BadString, EINVAL),
            ("p sys_open how->f_path.mnt:^symstr", BadSymstring, EINVAL),
        ],
    );
}

#[test]
fn each_error_of_the_selftests_is_found_at_its_place() {
    for probe in ["p", "f"] {
        for (marked, kind, errno) in [
            ("arg1=(task_struct)file^", TypecastReqField, EINVAL),
            (
                "arg1=(a)((b)((c)((d)((e)((f)((g)((h)((i)((j)((k)((l)((m)((n)((o)((p)(^(q)fi\
                 le->q)->p)->o)->n)->m)->l)->k)->j)->i)->h)->g)->f)->e)->d)->c)->b)->a",
                TooManyNested,
                E2BIG,
            ),
            (
                "arg1=(task_struct,^in_execve)file->comm",
                TypecastNotAligned,
                EINVAL,
            ),
            ("arg1=(task_struct,^foo_bar)file->pid", NoBtfField, ENOENT),
            ("arg1=(^task_struct1234)file->pid", NoPtrStrct, EINVAL),
            (
                "arg1=(task_struct,se^->group_node)file->comm",
                TypecastBadArrow,
                EINVAL,
            ),
            ("arg1=(task_struct,^->pid)file->comm", NoBtfField, ENOENT),
            ("arg1=(task_struct,^.pid)file->comm", NoBtfField, ENOENT),
            ("arg1=(task_struct,^.)file->comm", NoBtfField, ENOENT),
            (
                "arg1=(task_struct)^@symbol+10->comm",
                TypecastSymOffset,
                EINVAL,
            ),
            ("file->^foo", NoBtfField, ENOENT),
            ("file^-.foo", BadHyphen, EINVAL),
            ("^file:string", BadType4str, EINVAL),
        ] {
            let marked = format!("{probe} vfs_read {marked}");
            assert_errors(types_of("vfs_read"), &[(&marked, kind, errno)]);
        }
    }
}

#[test]
fn each_error_is_found_at_its_place() {
    assert_errors(
        types_of("vfs_read"),
        &[
            // The braces.
            ("p vfs_read (file^", DerefOpenBrace, EINVAL),
            ("p vfs_read (^", DerefOpenBrace, EINVAL),
            ("p vfs_read (file)^(buf->f_path", DerefOpenBrace, EINVAL),
            ("p vfs_read (file)^((buf)->f_path", DerefOpenBrace, EINVAL),
            ("p vfs_read (file)+0(buf->f_path^", DerefOpenBrace, EINVAL),
            (
                "p vfs_read (file)this_cpu_ptr(buf->f_path^",
                DerefOpenBrace,
                EINVAL,
            ),
            ("p vfs_read (file)^+0->f_path", DerefNeedBrace, EINVAL),
            ("p vfs_read (file)^->f_path", DerefNeedBrace, EINVAL),
            ("p vfs_read (file)^-", DerefNeedBrace, EINVAL),
            ("p vfs_read this_cpu_ptr(buf^", DerefOpenBrace, EINVAL),
            ("p vfs_read this_cpu_read(^", DerefOpenBrace, EINVAL),
            ("p vfs_read +0(this_cpu_read(buf^)", DerefOpenBrace, EINVAL),
            // The field.
            ("p vfs_read (file)^", TypecastReqField, EINVAL),
            ("p vfs_read (file)buf^", TypecastReqField, EINVAL),
            ("p vfs_read (file)buf.f_path^", TypecastReqField, EINVAL),
            ("p vfs_read (file)buf-x->f_path^", TypecastReqField, EINVAL),
            ("p vfs_read (file)\\-1->f_path^", TypecastReqField, EINVAL),
            ("p vfs_read (file)@sym-x->f_path^", TypecastReqField, EINVAL),
            ("p vfs_read (file)(buf)^", TypecastReqField, EINVAL),
            ("p vfs_read (file)(buf)^.f_path", TypecastReqField, EINVAL),
            ("p vfs_read (file)(buf)^-f_path", TypecastReqField, EINVAL),
            (
                "p vfs_read (file)+0(buf)^f->f_path",
                TypecastReqField,
                EINVAL,
            ),
            (
                "p vfs_read (file)this_cpu_read(buf)^",
                TypecastReqField,
                EINVAL,
            ),
            (
                "p vfs_read +0((file)buf^)->f_path",
                TypecastReqField,
                EINVAL,
            ),
            ("p vfs_read (file)buf->^", NoBtfField, ENOENT),
            ("p vfs_read (file)buf->^none", NoBtfField, ENOENT),
            ("p vfs_read (file)buf->f_path.^none", NoBtfField, ENOENT),
            (
                "p vfs_read (file)buf->f_path.dentry->^none",
                NoBtfField,
                ENOENT,
            ),
            ("p vfs_read (file)buf->f_path->^mnt", NoPtrStrct, EINVAL),
            ("p vfs_read (file)buf->f_path^-mnt", BadHyphen, EINVAL),
            ("p vfs_read (file)buf->f_void.^x", BadBtfTid, EINVAL),
            ("p vfs_read a=(file)(buf)->^none:u8", NoBtfField, ENOENT),
            ("p vfs_read a=(file)+8(buf)->^none", NoBtfField, ENOENT),
            // The structure.
            ("p vfs_read (^)buf->f_path", NoPtrStrct, EINVAL),
            ("p vfs_read (^,f_path)buf->f_path", NoPtrStrct, EINVAL),
            ("p vfs_read (^int)buf->f_path", NoPtrStrct, EINVAL),
            ("p vfs_read (^fil)buf->f_path", NoPtrStrct, EINVAL),
            ("p vfs_read (^(file)buf->f_path", NoPtrStrct, EINVAL),
            (
                "p vfs_read (dentry)((^none)file->f_path)->len",
                NoPtrStrct,
                EINVAL,
            ),
            // The field of the structure.
            ("p vfs_read (file,^)buf->f_path", NoBtfField, ENOENT),
            ("p vfs_read (file,f_path.^)buf->f_path", NoBtfField, ENOENT),
            (
                "p vfs_read (file,f_path.^none)buf->f_path",
                NoBtfField,
                ENOENT,
            ),
            (
                "p vfs_read (file,^f_path,mnt)buf->f_path",
                NoBtfField,
                ENOENT,
            ),
            (
                "p vfs_read (file,f_path^-mnt)buf->f_path",
                BadHyphen,
                EINVAL,
            ),
            (
                "p vfs_read (file,f_path.mnt.^x)buf->f_path",
                BadBtfTid,
                EINVAL,
            ),
            (
                "p vfs_read (file,f_path.dentry^->len)buf->f_path",
                TypecastBadArrow,
                EINVAL,
            ),
            (
                "p vfs_read (file,f_bits.^high)buf->f_path",
                TypecastNotAligned,
                EINVAL,
            ),
            (
                "p vfs_read (task_struct,in_execve->^x)buf->pid",
                TypecastNotAligned,
                EINVAL,
            ),
            (
                "p vfs_read (dentry)((file,^none)buf->f_path)->len",
                NoBtfField,
                ENOENT,
            ),
            // The value.
            ("p vfs_read (file)^hoge->f_path", NoBtfarg, ENOENT),
            ("p vfs_read (file)(^hoge)->f_path", NoBtfarg, ENOENT),
            ("p vfs_read (file)+0(^hoge)->f_path", NoBtfarg, ENOENT),
            ("p vfs_read (file)^%none->f_path", BadRegName, EINVAL),
            ("p vfs_read (file)^&->f_path", BadFetchArg, EINVAL),
            ("p vfs_read (file)(^)->f_path", BadFetchArg, EINVAL),
            ("p vfs_read (file)^@+8->f_path", TypecastSymOffset, EINVAL),
            ("p vfs_read (file)(^@+8)->f_path", FileOnKprobe, EINVAL),
            (
                "p vfs_read (file)^@sym-8->f_path",
                TypecastSymOffset,
                EINVAL,
            ),
            (
                "p vfs_read +0((file)^@sym+8->f_path)",
                TypecastSymOffset,
                EINVAL,
            ),
            ("p vfs_read this_cpu_ptr(^$comm)", CommCantDeref, EINVAL),
            ("p vfs_read this_cpu_read(^\\\"x\")", CommCantDeref, EINVAL),
            ("p vfs_read this_cpu_ptr(^)", BadFetchArg, EINVAL),
            ("f vfs_read (file)^%di->f_path", BadVar, EINVAL),
            ("f vfs_read this_cpu_ptr(^%di)", BadVar, EINVAL),
            ("p vfs_read (file)^$arg*->f_path", BadVar, EINVAL),
            ("p vfs_read (file)^$arg0->f_path", BadArgNum, EINVAL),
            (
                "p vfs_read (file)^$arg18446744073709551616->f_path",
                BadVar,
                Errno::ERANGE,
            ),
            ("p vfs_read ^this_cpu_ptr", NoBtfarg, ENOENT),
            ("p vfs_read ^this_cpu_reads(buf)", NoBtfarg, ENOENT),
            // The value is looked at before its typecast, and the inner typecast before the outer.
            ("p vfs_read (none)^hoge->f_path", NoBtfarg, ENOENT),
            (
                "p vfs_read (none)((^file1)buf->f_path)->x",
                NoPtrStrct,
                EINVAL,
            ),
            ("p vfs_read (none)((file)buf->^x)->x", NoBtfField, ENOENT),
            // All braces come before any value.
            (
                "p vfs_read (file)((file)hoge^)->f_path",
                TypecastReqField,
                EINVAL,
            ),
            // The task.
            ("p vfs_read ^$currents", BadVar, EINVAL),
            ("p vfs_read ^$current.pid", BadVar, EINVAL),
            ("p vfs_read $current^-pid", BadHyphen, EINVAL),
            ("p vfs_read $current->^", NoBtfField, ENOENT),
            ("p vfs_read $current->^none", NoBtfField, ENOENT),
            ("p vfs_read $current->pid->^x", NoPtrStrct, EINVAL),
            ("p vfs_read a=+0($current->^none)", NoBtfField, ENOENT),
            // Types.
            ("p vfs_read $current:^string", BadString, EINVAL),
            ("p vfs_read $current:^symstr", BadSymstring, EINVAL),
            ("p vfs_read $current:^u8[2]", BadString, EINVAL),
            ("p vfs_read $current->^pid:string", BadType4str, EINVAL),
            (
                "p vfs_read (file)buf->f_path.^dentry:string",
                BadType4str,
                EINVAL,
            ),
            ("p vfs_read this_cpu_ptr(@sym):^string", BadString, EINVAL),
            ("p vfs_read this_cpu_ptr(@sym):^ustring", BadString, EINVAL),
            (
                "p vfs_read this_cpu_ptr(@sym):^symstr",
                BadSymstring,
                EINVAL,
            ),
            ("p vfs_read this_cpu_ptr(@sym):^u64[2]", BadString, EINVAL),
            (
                "p vfs_read this_cpu_ptr(@sym):^string[2]",
                BadString,
                EINVAL,
            ),
            ("p vfs_read this_cpu_ptr(@sym):^b9@0/8", BadBitfield, EINVAL),
        ],
    );
}

#[test]
fn within_a_function_there_are_no_typecasts() {
    for types in [TypeInfo::Unknown(*btf()), TypeInfo::Unsupported] {
        assert_errors(
            types,
            &[
                ("p vfs_read+4 ^(file)%di->f_path", NosupBtfarg, EOPNOTSUPP),
                ("p 0xffff a=+0(^(file)%di->f_path)", NosupBtfarg, EOPNOTSUPP),
                ("p vfs_read+4 ^(", NosupBtfarg, EOPNOTSUPP),
            ],
        );
    }
}

#[test]
fn without_btf_there_are_no_typecasts_and_no_fields() {
    assert_errors(
        TypeInfo::Unsupported,
        &[
            ("p vfs_read ^(file)%di->f_path", NosupBtfarg, EOPNOTSUPP),
            ("p vfs_read +0(^()", NosupBtfarg, EOPNOTSUPP),
            ("p vfs_read ^$current->pid", BadVar, EINVAL),
            ("p vfs_read this_cpu_ptr(^buf)", NosupBtfarg, EOPNOTSUPP),
        ],
    );
    // BTF without the structure of a task.
    let sections = Sections::parse(Builder::new().bytes().leak(), None).unwrap();
    let index = vec![0; sections.slots().unwrap()].leak();
    let empty: Btf<'static> = sections.index(index).unwrap();
    assert_errors(
        TypeInfo::Unknown(empty),
        &[
            ("p vfs_read ^$current->pid", NoBtfEntry, ENOENT),
            ("p vfs_read $current^-pid", BadHyphen, EINVAL),
            ("p vfs_read (^task_struct)$current->pid", NoPtrStrct, EINVAL),
        ],
    );
}

#[test]
fn sixteen_levels_are_parsed_and_no_more() {
    let parse = |text: String| {
        let argument = parse(&format!("p vfs_read a={text}"), types_of("vfs_read"));
        argument
            .map(|_| ())
            .map_err(|e| (e.kind, e.errno, e.at.offset))
    };
    for (open, close) in [
        ("+0(", ")"),
        ("-u4(", ")"),
        ("this_cpu_ptr(", ")"),
        ("(task_struct)", "->pid"),
    ] {
        // A value of each kind of level is within dereferences, which are short.
        let levels = |count: usize| {
            let derefs = count - 1;
            format!(
                "{}{open}buf{close}{}",
                "+0(".repeat(derefs),
                ")".repeat(derefs)
            )
        };
        assert_eq!(parse(levels(16)), Ok(()), "{open}");
        // The place is the seventeenth: its parentheses are those of the sixteenth.
        let at = 2 + "+0(".len() * 16;
        for count in [17, 18, 40] {
            assert_eq!(
                parse(levels(count)),
                Err((TooManyNested, E2BIG, at)),
                "{open}"
            );
        }
    }
    // All sorts count, and what is wrong within the seventeenth is not looked at.
    let mixed = |inner| {
        format!(
            "{}+0(this_cpu_ptr((task_struct)(+0((task_struct)+8(this_cpu_ptr(\
             (task_struct){inner}->parent))->parent))->parent)){}",
            "+0(".repeat(8),
            ")".repeat(8),
        )
    };
    assert_eq!(parse(mixed("buf")), Ok(()));
    assert_eq!(parse(mixed("+0(none)")).unwrap_err().0, TooManyNested);
    assert_eq!(
        parse(mixed("this_cpu_read(none)")).unwrap_err().0,
        TooManyNested
    );
    assert_eq!(parse(mixed("(none)")).unwrap_err().0, NoBtfarg);
}

#[test]
fn steps_are_limited_where_fields_and_levels_add_them() {
    let error = |text: &str| {
        let argument = parse(&format!("p vfs_read {text}"), types_of("vfs_read"));
        argument
            .map(|_| ())
            .map_err(|e| (e.kind, e.errno, e.at.offset))
    };
    let parents = |count: usize| format!("$current{}", "->parent".repeat(count));
    // The fields of a variable. As in C, the error is at the next field if there is one.
    assert_eq!(error(&parents(16)), Ok(()));
    let last = parents(16).len() + "->".len();
    assert_eq!(error(&parents(17)), Err((TooManyOps, EINVAL, last)));
    let next = parents(17).len() + "->".len();
    assert_eq!(error(&parents(18)), Err((TooManyOps, EINVAL, next)));
    // Those of a typecast.
    let cast = |count: usize| format!("(task_struct)({})->pid", parents(count));
    assert_eq!(error(&cast(15)), Ok(()));
    let last = cast(16).len() - "pid".len();
    assert_eq!(error(&cast(16)), Err((TooManyOps, EINVAL, last)));
    // The string behind a pointer.
    let string = |count: usize| format!("{}->se.group_node.next:string", parents(count));
    assert_eq!(error(&string(14)), Ok(()));
    let last = string(15).len() - "next:string".len();
    assert_eq!(error(&string(15)), Err((TooManyOps, E2BIG, last)));
    // The bits of a field take no step.
    let bits = |count: usize| format!("{}->in_execve", parents(count));
    assert_eq!(error(&bits(15)), Ok(()));
    let last = bits(16).len() - "in_execve".len();
    assert_eq!(error(&bits(16)), Err((TooManyOps, EINVAL, last)));
    // An address that is not read takes one.
    let ptr = |count: usize, ty| format!("this_cpu_ptr({}){ty}", parents(count));
    let at = "this_cpu_ptr(".len();
    for ty in ["", ":u8", ":b1@0/8"] {
        assert_eq!(error(&ptr(15, ty)), Ok(()));
        assert_eq!(error(&ptr(16, ty)), Err((TooManyOps, EINVAL, at)));
    }
    // A read takes two.
    let read = |count: usize| format!("this_cpu_read({})", parents(count));
    let at = "this_cpu_read(".len();
    assert_eq!(error(&read(14)), Ok(()));
    assert_eq!(error(&read(15)), Err((TooManyOps, EINVAL, at)));
    // The address of a symbol takes the place of its value.
    for base in ["%di", "@1", "@sym"] {
        let fields = |count: usize| {
            let parents = "->parent".repeat(count - 1);
            error(&format!("(task_struct)this_cpu_ptr({base}){parents}->pid")).map_err(|e| e.0)
        };
        assert_eq!(fields(15), Ok(()), "{base}");
        assert_eq!(fields(16), Err(TooManyOps), "{base}");
    }
}

#[test]
fn an_event_probe_casts_its_fields_alone() {
    use super::events::{
        types,
        FILENAME, //
    };

    let filename = Base::Field(FILENAME);
    assert_fetches(
        "e a/b",
        types(),
        &[
            ("filename", filename, &[], X64),
            ("$filename", filename, &[], X64),
            ("+0(filename):string", filename, &[k(0)], STRING),
            (
                "(file)filename->f_path.dentry->len",
                filename,
                &[k(16), k(20)],
                S32,
            ),
            (
                "(file)$filename->f_path.dentry->len",
                filename,
                &[k(16), k(20)],
                S32,
            ),
            ("(file)($filename)->f_path.mnt", filename, &[k(8)], X64),
            (
                "(file)(filename)->f_path.mnt:string",
                filename,
                &[k(8), k(0)],
                STRING,
            ),
            ("(file,f_path)filename->f_path.mnt", filename, &[k(0)], X64),
            (
                "(file)+8(filename)->f_path.mnt",
                filename,
                &[k(8), k(8)],
                X64,
            ),
            (
                "(dentry)((file)filename->f_path.dentry)->len",
                filename,
                &[k(16), k(20)],
                S32,
            ),
            (
                "+4((file)filename->f_path.dentry)",
                filename,
                &[k(16), k(4)],
                X64,
            ),
            ("(file)$comm->f_path.mnt", Base::Comm, &[k(8)], X64),
            (
                "(file)@sym->f_path.mnt",
                Base::Symbol("sym"),
                &[k(0), k(8)],
                X64,
            ),
        ],
    );
    assert_errors(
        types(),
        &[
            ("e a/b ^none", NoEventField, EINVAL),
            ("e a/b a=+0(^none):string", NoEventField, EINVAL),
            ("e a/b ^_", NoEventField, EINVAL),
            ("e a/b ^filename->f_path", NoEventField, EINVAL),
            ("e a/b (file)^none->f_path", NoEventField, EINVAL),
            ("e a/b (file)(^none)->f_path", NoEventField, EINVAL),
            ("e a/b (file)^$none->f_path", BadVar, EINVAL),
            ("e a/b ^$currents", BadVar, EINVAL),
            ("e a/b ^$current.pid", BadVar, EINVAL),
            ("e a/b $current->^none", NoBtfField, ENOENT),
            ("e a/b ^this_cpu_read(filename)", NosupPercpu, EINVAL),
            ("e a/b ^this_cpu_ptr(@sym)", NosupPercpu, EINVAL),
            ("e a/b a=+0(^this_cpu_ptr()", NosupPercpu, EINVAL),
            (
                "e a/b (file)^this_cpu_ptr(@sym)->f_path",
                NosupPercpu,
                EINVAL,
            ),
            (
                "e a/b (file)(^this_cpu_ptr(@sym))->f_path",
                NosupPercpu,
                EINVAL,
            ),
            ("e a/b (file)filename^", TypecastReqField, EINVAL),
            ("e a/b (file)^@sym+8->f_path", TypecastSymOffset, EINVAL),
            (
                "e a/b (task_struct,^in_execve)filename->pid",
                TypecastNotAligned,
                EINVAL,
            ),
            (
                "e a/b (task_struct,se^->weight)filename->pid",
                TypecastBadArrow,
                EINVAL,
            ),
        ],
    );
}

#[test]
fn types_are_asked_for_where_they_are_needed() {
    use probe::command::{
        parse,
        Line, //
    };

    for (line, needs) in [
        ("p vfs_read $current a=+8($current)", false),
        ("p vfs_read this_cpu_ptr(@sym) this_cpu_read(%di)", false),
        ("p vfs_read +0(this_cpu_ptr(+0($stack)))", false),
        ("p vfs_read $current->pid", true),
        ("p vfs_read this_cpu_read($current->parent)", true),
        ("p vfs_read a=+0(this_cpu_ptr(buf))", true),
        ("p vfs_read +0((file)%di->f_path)", true),
        ("p vfs_read this_cpu_ptr((file)%di->f_path)", true),
        ("r vfs_read this_cpu_ptr($retval)", true),
    ] {
        let Ok(Line::Create(command)) = parse(line) else {
            panic!("{line}");
        };
        let needed = command.arguments().any(|argument| argument.needs_types());
        assert_eq!(needed, needs, "{line}");
    }
}

#[test]
fn arguments_stand_for_others_within_the_new_forms() {
    let listing = |line: &'static str| {
        create_at(EventsFile::DynamicEvents, line, types_of("vfs_read"))
            .expect(line)
            .listing()
    };
    // As in C, `$argN` is expanded only where an argument starts with it.
    assert_eq!(
        listing("p:a/b vfs_read (file)$arg1->f_path.mnt"),
        "p:a/b vfs_read arg1=(file)$arg1->f_path.mnt"
    );
    assert_eq!(
        listing("p:a/b vfs_read x=(file)buf->f_path.dentry:%pd"),
        "p:a/b vfs_read x=+0x0(+0x28((file)buf->f_path.dentry)):string"
    );
    assert_eq!(
        listing("p:a/b vfs_read x=this_cpu_read(@files):%pD $current->pid"),
        "p:a/b vfs_read x=+0x0(+0x28(+0x48(this_cpu_read(@files)))):string arg2=$current->pid"
    );
}
