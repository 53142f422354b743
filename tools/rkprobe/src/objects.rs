// SPDX-License-Identifier: GPL-2.0

//! The objects of functions: which fetch argument has the object that a question is about.

use probe::btf::{
    Btf,
    TypeId,
    TypeKind, //
};

use crate::{
    btf,
    failure::{
        Failure,
        Result, //
    },
    functions::Functions,
    probes, //
};

/// The lowest address that is an error. C: `MAX_ERRNO`.
const MIN_ERROR: u64 = u64::MAX - 4094;

/// The fetch argument with the object of a function: the return value, or its only parameter of this type. At the end
/// of a life, the parameter comes first.
fn find_object(btf: &Btf<'_>, function: &str, structure: &str, is_end: bool) -> Result<String> {
    let is_object = |ty: TypeId| {
        btf.resolve(ty)
            .and_then(|ty| btf.name(btf.pointed_structure(ty)?))
            == Some(structure)
    };
    let Some(found) = btf.function(function) else {
        return Err(Failure::new(format!(
            "BTF does not describe {function}: say what the object is, such as --{} '$arg1'",
            option(is_end)
        )));
    };
    let is_returned = is_object(found.returned());
    if is_returned && !is_end {
        return Ok("$retval".into());
    }
    let names: Vec<&str> = found
        .params()
        .filter(|param| is_object(param.ty))
        .map(|param| param.name)
        .collect();
    match names[..] {
        [name] => Ok(name.into()),
        [] if is_returned => Ok("$retval".into()),
        [] => Err(Failure::new(format!(
            "{function} neither takes nor returns a pointer to {structure}: use another function, or --{} with a fetch \
             argument",
            option(is_end)
        ))),
        _ => Err(Failure::new(format!(
            "{function} takes several pointers to {structure}: choose one with --{} {}",
            option(is_end),
            names.join("|")
        ))),
    }
}

fn option(is_end: bool) -> &'static str {
    if is_end {
        "end"
    } else {
        "object"
    }
}

fn check_structure(btf: &Btf<'_>, structure: &str) -> Result {
    let kinds = [TypeKind::Struct, TypeKind::Union];
    if kinds
        .iter()
        .any(|kind| btf.find(structure, *kind).is_some())
    {
        return Ok(());
    }
    let names = (1..btf.type_count())
        .filter_map(|id| btf.get(TypeId::new(id)))
        .filter(|ty| ty.kind().has_members())
        .filter_map(|ty| btf.name(ty));
    Err(probes::no_such("structure", structure, names))
}

/// The fetch argument with the object of a function, from the user or from BTF.
pub fn choose(
    functions: &Functions,
    structure: &str,
    function: &str,
    chosen: Option<&str>,
    is_end: bool,
) -> Result<String> {
    if let Some(chosen) = chosen {
        return Ok(chosen.into());
    }
    let module = functions.module_of(function);
    let name = function.rsplit(':').next().unwrap_or(function);
    btf::with(module.as_deref(), |btf| {
        check_structure(btf, structure)?;
        find_object(btf, name, structure, is_end)
    })
    .unwrap_or_else(|| {
        Err(Failure::new(
            "the kernel has no BTF: it needs CONFIG_DEBUG_INFO_BTF",
        ))
    })
}

/// Whether a value is neither `NULL` nor an error.
pub fn is_address(value: &str) -> bool {
    u64::from_str_radix(value.trim_start_matches("0x"), 16)
        .is_ok_and(|value| value != 0 && value < MIN_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn btf_says_what_the_object_is() {
        let mut types = btf::builder::Builder::new();
        let int = types.int("int", 4, 0);
        let inode = types.members(4, "inode", &[("i", int, 0)]);
        let constant = types.refer(10, "", inode);
        let inode = types.ptr(constant);
        types.function("alloc", &[("n", int)], inode);
        types.function("get", &[("object", inode)], inode);
        types.function("free", &[("n", int), ("object", inode)], TypeId::VOID);
        types.function("two", &[("a", inode), ("b", inode)], int);
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        let found = |function, is_end| match find_object(&btf, function, "inode", is_end) {
            Ok(found) => found,
            Err(Failure::Message(text)) => text,
            Err(failure) => panic!("{failure:?}"),
        };
        assert_eq!(found("alloc", false), "$retval");
        assert_eq!(found("alloc", true), "$retval");
        assert_eq!(found("get", false), "$retval");
        assert_eq!(found("get", true), "object");
        assert_eq!(found("free", false), "object");
        assert_eq!(
            found("two", true),
            "two takes several pointers to inode: choose one with --end a|b"
        );
        assert!(found("none", false).contains("--object '$arg1'"));
        assert!(check_structure(&btf, "inode").is_ok());
        let Err(Failure::Message(text)) = check_structure(&btf, "inodes") else {
            panic!();
        };
        assert_eq!(text, "the kernel has no structure inodes; similar: inode");
        assert!(find_object(&btf, "alloc", "file", false).is_err());
    }
}
