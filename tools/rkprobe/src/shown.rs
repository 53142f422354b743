// SPDX-License-Identifier: GPL-2.0

//! The values that the user wants to see, `[NAME=]FETCHARG`: their names, and how people read them.

use probe::btf::{
    Btf,
    TypeKind, //
};

use crate::{
    failure::{
        Failure,
        Result, //
    },
    kinds::{
        find,
        is_text,
        kind,
        Owner, //
    },
    value::Value, //
};

/// The maximum length of the name of a field. C: `MAX_ARG_NAME_LEN`.
pub const MAX_NAME: usize = 31;

/// The values by their types in BTF. Without a type in the fetch argument, that of a member decides.
pub fn typed(
    btf: &Btf<'_>,
    owner: &Owner<'_>,
    fields: &[&str],
    taken: &[&str],
) -> Result<Vec<Value>> {
    let fields = named(fields, taken).into_iter();
    fields.map(|field| chosen(btf, owner, &field)).collect()
}

/// The values without types.
pub fn plain(fields: &[&str], taken: &[&str]) -> Vec<Value> {
    let fields = named(fields, taken).into_iter();
    fields.map(|field| Value::plain(&field)).collect()
}

/// The fields, each with a name: without one, that of its last member, with a number if the name is taken. The module
/// itself names the fields of `FETCH->*`.
fn named(fields: &[&str], taken: &[&str]) -> Vec<String> {
    let given = fields.iter().filter_map(|field| field.split_once('='));
    let mut taken: Vec<String> = given
        .map(|(name, _)| name)
        .chain(taken.iter().copied())
        .map(String::from)
        .collect();
    let mut named = |field: &str| {
        if field.contains('=') || field.ends_with('*') {
            return field.to_string();
        }
        let name = last_name(field);
        let numbered = (2..).map(|number| format!("{name}{number}"));
        let mut names = [name.to_string()].into_iter().chain(numbered);
        let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
        let field = format!("{name}={field}");
        taken.push(name);
        field
    };
    fields.iter().map(|field| named(field)).collect()
}

/// The name of the last member or variable of a fetch argument. There is room for a number, or for the name of the field
/// with the address of a string.
pub fn last_name(fetch: &str) -> &str {
    let place = fetch.rsplit_once(':').map_or(fetch, |(place, _)| place);
    let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let name = place.rsplit(is_end).next().unwrap_or("");
    let is_name =
        name.starts_with(|c: char| !c.is_ascii_digit()) && name.len() + "_at".len() < MAX_NAME;
    match is_name {
        true => name,
        false => "value",
    }
}

/// The value of `NAME=FETCHARG`.
fn chosen(btf: &Btf<'_>, owner: &Owner<'_>, field: &str) -> Result<Value> {
    let Some((name, fetch)) = field.split_once('=') else {
        return Ok(Value::plain(field));
    };
    let refused = |reason| Failure::new(format!("--show {field}: {reason}"));
    if let Some(fetch) = file_name(btf, owner, fetch).map_err(refused)? {
        return Ok(Value::plain(&format!("{name}={fetch}")));
    }
    Ok(match find(btf, owner, fetch) {
        Some(found) => {
            let kind = kind(btf, found.ty, found.owner, found.name);
            Value::member(name, fetch, kind, is_text(btf, found.ty))
        }
        None => Value::plain(field),
    })
}

/// The fetch argument for the name of a file, `PLACE:%pd` or `PLACE:%pD`, if the type of the place is known. A path
/// contains a pointer to a dentry. An error says why the place can be no file.
fn file_name(
    btf: &Btf<'_>,
    owner: &Owner<'_>,
    fetch: &str,
) -> std::result::Result<Option<String>, String> {
    let Some((place, wanted @ ("%pd" | "%pD"))) = fetch.rsplit_once(':') else {
        return Ok(None);
    };
    let ty = find(btf, owner, place).and_then(|found| btf.resolve(found.ty));
    let target = match ty {
        Some(ty) if ty.kind() == TypeKind::Ptr => btf.resolve(ty.target()),
        ty => ty,
    };
    let (Some(ty), Some(target)) = (ty, target) else {
        return Ok(None);
    };
    let structure = match target.kind() {
        TypeKind::Struct | TypeKind::Fwd => btf.name(target).unwrap_or(""),
        // `void *` and `unsigned long` can be any address.
        TypeKind::Void => return Ok(None),
        TypeKind::Int if ty.int().is_some_and(|int| int.bits() == 64) => return Ok(None),
        _ => "",
    };
    match (wanted, structure) {
        ("%pd", "dentry") | ("%pD", "file") => Ok(None),
        ("%pd", "path") => {
            // The structure of `$obj` is the one to which it points.
            let is_pointer = ty.kind() == TypeKind::Ptr || place == "$obj";
            let arrow = if is_pointer { "->" } else { "." };
            Ok(Some(format!("{place}{arrow}dentry:%pd")))
        }
        ("%pd", "file") => Err(format!("{place} is a file: write {place}:%pD")),
        ("%pD", "dentry" | "path") => Err(format!("{place} is no file: write {place}:%pd")),
        ("%pd", _) => Err(format!(
            "{place} is neither a struct dentry * nor a struct path"
        )),
        _ => Err(format!("{place} is no struct file *")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use probe::btf::TypeId;

    use crate::btf::{
        self,
        builder::{
            Builder,
            SIGNED, //
        },
    };

    /// The fetch arguments for these fields of a function with files.
    fn shown(fields: &[&str]) -> Result<Vec<String>> {
        let mut types = Builder::new();
        let int = types.int("int", 4, SIGNED);
        let word = types.int("unsigned long", 8, 0);
        let dentry = types.members(4, "dentry", &[("d_flags", int, 0)]);
        let to_dentry = types.ptr(dentry);
        let path = types.members(4, "path", &[("dentry", to_dentry, 64)]);
        let constant = types.refer(10, "", path);
        let to_path = types.ptr(constant);
        let file = types.members(4, "file", &[("f_path", path, 0), ("f_flags", int, 128)]);
        let to_file = types.ptr(file);
        let to_any = types.ptr(TypeId::VOID);
        types.function(
            "f",
            &[
                ("file", to_file),
                ("path", to_path),
                ("dentry", to_dentry),
                ("data", to_any),
                ("word", word),
                ("n", int),
            ],
            to_dentry,
        );
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        let function = btf.function("f").unwrap();
        let params: Vec<&str> = function.params().map(|param| param.name).collect();
        let values = typed(&btf, &Owner::Function("f", &function), fields, &params)?;
        Ok(values.into_iter().map(|value| value.fetch).collect())
    }

    #[test]
    fn a_path_has_the_name_of_its_dentry() {
        for (fetch, expected) in [
            ("path:%pd", "path->dentry:%pd"),
            ("$arg2:%pd", "$arg2->dentry:%pd"),
            ("file->f_path:%pd", "file->f_path.dentry:%pd"),
            ("file->f_path.dentry:%pd", "file->f_path.dentry:%pd"),
            ("file:%pD", "file:%pD"),
            ("$retval:%pd", "$retval:%pd"),
            ("data:%pd", "data:%pd"),
            ("word:%pD", "word:%pD"),
            ("none:%pd", "none:%pd"),
        ] {
            let shown = shown(&[&format!("x={fetch}")]).unwrap();
            assert_eq!(shown, [format!("x={expected}")]);
        }
    }

    #[test]
    fn what_is_no_file_has_no_name() {
        for (fetch, reason) in [
            ("n:%pd", "n is neither a struct dentry * nor a struct path"),
            (
                "file->f_flags:%pd",
                "file->f_flags is neither a struct dentry * nor a struct path",
            ),
            ("file:%pd", "file is a file: write file:%pD"),
            ("dentry:%pD", "dentry is no file: write dentry:%pd"),
            (
                "file->f_path:%pD",
                "file->f_path is no file: write file->f_path:%pd",
            ),
            ("n:%pD", "n is no struct file *"),
        ] {
            let failure = shown(&[&format!("x={fetch}")]).unwrap_err();
            assert_eq!(failure.reason(), format!("--show x={fetch}: {reason}"));
        }
    }

    #[test]
    fn a_value_has_the_name_of_its_last_member() {
        let fields = [
            "file->f_flags",
            "file",
            "n=word",
            "file->f_path:%pd",
            "n:x32",
            "$retval->d_flags:x32",
            "+8($arg1):u64",
            "file->*",
            "file->f_flags",
        ];
        let expected = [
            "f_flags=file->f_flags",
            "file2=file",
            "n=word",
            "f_path=file->f_path.dentry:%pd",
            "n2=n:x32",
            "d_flags=$retval->d_flags:x32",
            "value=+8($arg1):u64",
            "file->*",
            "f_flags2=file->f_flags",
        ];
        assert_eq!(shown(&fields).unwrap(), expected);
        let all = plain(&["$comm", "a=$pid"], &["comm"]).into_iter();
        let all: Vec<String> = all.map(|value| value.fetch).collect();
        assert_eq!(all, ["comm2=$comm", "a=$pid"]);
    }
}
