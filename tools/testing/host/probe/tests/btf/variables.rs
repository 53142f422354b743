// SPDX-License-Identifier: GPL-2.0

//! Variables with fields: where they lead, and what is wrong with them.

use probe::{
    btf::{
        field_offset,
        Error,
        Fields,
        TypeId,
        TypeKind,
        Variable, //
    },
    error::{
        Errno,
        ErrorKind::{
            self,
            *, //
        },
    },
    types::Space, //
};

use crate::{
    builder::*,
    open, //
};

const EINVAL: Errno = Errno::EINVAL;
const ENOENT: Errno = Errno::ENOENT;

/// The offsets, and the kind and the bits of what is there, at the entry of `function`.
type Steps = (Vec<i32>, TypeKind, u8, u8);

fn follow(function: &str, text: &str) -> Result<Steps, Error> {
    let btf = open(everything().bytes());
    let variable = Variable::parse(text)?;
    let function = btf.function(function);
    let ty = if variable.name == "$retval" {
        variable
            .returned(function.as_ref())?
            .unwrap_or(TypeId::VOID)
    } else {
        variable.param(function.as_ref())?.ty
    };
    let mut fields = variable.fields(&btf, ty)?;
    let mut last = fields.start().expect(text);
    let mut offsets = Vec::new();
    while let Some(read) = fields.next() {
        match read {
            Ok(read) => {
                offsets.push(read.offset);
                last = read.value;
            }
            Err(error) => {
                assert!(fields.next().is_none());
                return Err(error);
            }
        }
    }
    Ok((offsets, last.ty.kind(), last.first_bit, last.bitfield))
}

#[test]
fn fields_add_up_between_arrows() {
    for (text, steps) in [
        ("file", (vec![], TypeKind::Ptr, 0, 0)),
        ("count", (vec![], TypeKind::Int, 0, 0)),
        ("file->f_path", (vec![8], TypeKind::Struct, 0, 0)),
        ("file->f_path.mnt", (vec![8], TypeKind::Ptr, 0, 0)),
        ("file->f_path.dentry", (vec![16], TypeKind::Ptr, 0, 0)),
        (
            "file->f_path.dentry->d_iname",
            (vec![16, 4], TypeKind::Array, 0, 0),
        ),
        (
            "file->f_path.dentry->len",
            (vec![16, 20], TypeKind::Int, 0, 0),
        ),
        ("file->f_bits.low", (vec![24], TypeKind::Int, 0, 3)),
        ("file->f_bits.high", (vec![24], TypeKind::Int, 3, 29)),
        ("file->f_void", (vec![32], TypeKind::Void, 0, 0)),
    ] {
        assert_eq!(follow("vfs_read", text), Ok(steps), "{text}");
    }
    assert_eq!(
        follow("printk", "$retval->hash"),
        Ok((vec![20], TypeKind::Int, 0, 0))
    );
    assert_eq!(
        follow("vfs_read", "$retval"),
        Ok((vec![], TypeKind::Int, 0, 0))
    );
    // Nothing is known of it.
    assert_eq!(
        follow("none", "$retval"),
        Ok((vec![], TypeKind::Void, 0, 0))
    );
}

#[test]
fn each_error_has_its_place_and_number() {
    let cases: &[(&str, &str, ErrorKind, Errno)] = &[
        ("vfs_read", "file^-f_path", BadHyphen, EINVAL),
        ("vfs_read", "file^-.f_path", BadHyphen, EINVAL),
        ("vfs_read", "file^-", BadHyphen, EINVAL),
        ("none", "x^-y", BadHyphen, EINVAL),
        ("vfs_read", "file.^f_path", NosupDatArg, Errno::EOPNOTSUPP),
        ("none", "$retval.^f", NosupDatArg, Errno::EOPNOTSUPP),
        ("none", "^file->f", NoBtfEntry, ENOENT),
        ("nothing", "^file", NoBtfEntry, ENOENT),
        ("vfs_read", "^hoge", NoBtfarg, ENOENT),
        ("vfs_read", "^", NoBtfarg, ENOENT),
        ("vfs_read", "^files->f_path", NoBtfarg, ENOENT),
        ("nothing", "^$retval", NoRetval, ENOENT),
        ("nothing", "^$retval->f", NoRetval, ENOENT),
        ("none", "$retval->^f", NoBtfEntry, ENOENT),
        ("vfs_read", "$retval->^foo", NoPtrStrct, EINVAL),
        ("vfs_read", "count->^foo", NoPtrStrct, EINVAL),
        ("vfs_read", "file->f_path->^mnt", NoPtrStrct, EINVAL),
        ("vfs_read", "buf->^foo", BadBtfTid, EINVAL),
        ("vfs_read", "file->f_path.mnt.^foo", BadBtfTid, EINVAL),
        ("vfs_read", "file->f_void.^foo", BadBtfTid, EINVAL),
        ("vfs_read", "file->^foo", NoBtfField, ENOENT),
        ("vfs_read", "file->^", NoBtfField, ENOENT),
        ("vfs_read", "file->f_path.^", NoBtfField, ENOENT),
        ("vfs_read", "file->f_path.^mnt_->x", NoBtfField, ENOENT),
        ("vfs_read", "file->f_path.dentry->^foo", NoBtfField, ENOENT),
        ("vfs_read", "file->f_path^-.foo", BadHyphen, EINVAL),
        // What is found first is told.
        ("vfs_read", "file->foo^-", BadHyphen, EINVAL),
    ];
    for (function, marked, kind, errno) in cases {
        let text = marked.replacen('^', "", 1);
        let error = follow(function, &text).expect_err(marked);
        assert_eq!((error.kind, error.errno), (*kind, *errno), "{marked}");
        assert_eq!(error.at, marked.find('^').unwrap(), "{marked}");
    }
}

#[test]
fn a_cast_takes_the_structure_itself() {
    let btf = open(everything().bytes());
    let file = btf.find("file", TypeKind::Struct).unwrap();
    let offsets = |text: &'static str| {
        let variable = Variable::parse(text).unwrap();
        let fields = variable.fields_of(&btf, file);
        let reads: Result<Vec<_>, _> = fields.map(|read| read.map(|r| (r.offset, r.at))).collect();
        reads.map_err(|error| (error.kind, error.at))
    };
    assert_eq!(
        offsets("x->f_path.dentry->d_flags"),
        Ok(vec![(16, 18), (0, 18)])
    );
    assert_eq!(offsets("x->f_path->mnt"), Err((NoPtrStrct, 11)));
    assert_eq!(offsets("x"), Ok(vec![]));
}

#[test]
fn a_type_that_is_missing_is_told() {
    let mut b = Builder::new();
    let gone = TypeId::new(77);
    let ptr = b.ptr(gone);
    let holes = b.members(4, "holes", &[("gone", gone, 0), ("far", ptr, u32::MAX)]);
    let outer = b.members(4, "outer", &[("holes", holes, 8), ("far", holes, u32::MAX)]);
    let to_outer = b.ptr(outer);
    b.function("f", &[("a", gone), ("b", ptr), ("c", to_outer)], gone);
    let btf = open(b.bytes());
    let function = btf.function("f");
    let error = |text: &'static str| {
        let variable = Variable::parse(text).unwrap();
        let ty = variable.param(function.as_ref()).unwrap().ty;
        let error = match variable.fields(&btf, ty) {
            Ok(mut fields) => fields.find_map(Result::err).unwrap(),
            Err(error) => error,
        };
        (error.kind, error.at)
    };
    assert_eq!(error("a"), (BadBtfTid, 0));
    assert_eq!(error("a->x"), (BadBtfTid, 0));
    assert_eq!(error("b->x"), (BadBtfTid, 3));
    assert_eq!(error("c->holes.gone"), (BadBtfTid, 9));
    // The sum of the offsets is no offset.
    assert_eq!(error("c->far.far"), (BadBtfTid, 7));
}

#[test]
fn a_field_has_an_offset_in_its_structure() {
    let btf = open(everything().bytes());
    let find = |name: &str| btf.find(name, TypeKind::Struct).unwrap();
    let (file, dentry, task) = (find("file"), find("dentry"), find("task_struct"));
    for (id, text, offset) in [
        (file, "f_path", 8),
        (file, "f_path.mnt", 8),
        (file, "f_path.dentry", 16),
        (file, "f_bits.low", 24),
        (file, "f_void", 32),
        (dentry, "d_iname", 4),
        // Of a union without a name.
        (dentry, "hash", 20),
        (task, "in_bytes", 5),
        (task, "se.group_node.next", 48),
    ] {
        assert_eq!(field_offset(&btf, id, text), Ok(offset), "{text}");
    }
    for (id, marked, kind, errno) in [
        (file, "^", NoBtfField, ENOENT),
        (file, "^none", NoBtfField, ENOENT),
        (file, "^.f_path", NoBtfField, ENOENT),
        (file, "^->f_path", NoBtfField, ENOENT),
        (file, "f_path.^", NoBtfField, ENOENT),
        (file, "f_path.^none.x", NoBtfField, ENOENT),
        (file, "f_path^-x", BadHyphen, EINVAL),
        (file, "f_path^-", BadHyphen, EINVAL),
        (file, "f_path.mnt.^x", BadBtfTid, EINVAL),
        (file, "f_path^->mnt", TypecastBadArrow, EINVAL),
        (file, "f_path.dentry^->", TypecastBadArrow, EINVAL),
        (file, "f_bits.^high", TypecastNotAligned, EINVAL),
        (task, "^in_execve", TypecastNotAligned, EINVAL),
        (task, "in_execve->^x", TypecastNotAligned, EINVAL),
        (TypeId::VOID, "^x", BadBtfTid, EINVAL),
        (TypeId::new(9999), "^x", BadBtfTid, EINVAL),
        (TypeId::new(1), "^x", BadBtfTid, EINVAL),
    ] {
        let error = field_offset(&btf, id, &marked.replacen('^', "", 1)).expect_err(marked);
        let at = marked.find('^').unwrap();
        assert_eq!(
            (error.kind, error.errno, error.at),
            (kind, errno, at),
            "{marked}"
        );
    }
}

#[test]
fn fields_of_a_structure_start_behind_its_start() {
    let btf = open(everything().bytes());
    let file = btf.find("file", TypeKind::Struct).unwrap();
    let reads = |behind, space, text: &'static str| {
        let fields = Fields::of_structure(btf, file, behind, space, text);
        assert!(fields.start().is_none());
        let reads: Result<Vec<_>, _> = fields
            .map(|read| read.map(|read| (read.space, read.offset, read.at)))
            .collect();
        reads.map_err(|error| (error.kind, error.at))
    };
    let (kernel, user) = (Space::Kernel, Space::User);
    assert_eq!(reads(0, kernel, "f_path.mnt"), Ok(vec![(kernel, 8, 7)]));
    assert_eq!(reads(24, kernel, "f_path"), Ok(vec![(kernel, -16, 0)]));
    // Only the first read has this offset, and is from this memory.
    assert_eq!(
        reads(20, user, "f_path.dentry->len"),
        Ok(vec![(user, -4, 15), (kernel, 20, 15)])
    );
    assert_eq!(reads(0, kernel, ""), Err((NoBtfField, 0)));
    assert_eq!(reads(0, kernel, "f_path->mnt"), Err((NoPtrStrct, 8)));
    assert_eq!(reads(0, kernel, "f_path-"), Err((BadHyphen, 6)));
    // Any number is taken, as 32 bits.
    assert_eq!(reads(u32::MAX, kernel, "f_path"), Ok(vec![(kernel, 9, 0)]));
}
