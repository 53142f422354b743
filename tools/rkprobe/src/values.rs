// SPDX-License-Identifier: GPL-2.0

//! The values of an event, as people read them: the parameters of a function, its return value, and what the user wants to
//! see.

use std::{
    borrow::Cow,
    rc::Rc, //
};

use probe::btf::{
    Btf,
    Function,
    Param,
    TypeKind, //
};

use serde::{
    Serialize,
    Serializer, //
};
use serde_json::Value as Json;

use crate::{
    btf,
    deep::Deep,
    failure::Result,
    functions::Functions,
    kinds::{
        kind,
        Kind,
        Owner, //
    },
    record::Record,
    shown,
    value::Value, //
};

/// The values to show beside the parameters of functions.
#[derive(Clone, Copy, Default)]
pub struct More<'a> {
    /// `[NAME=]FETCHARG`.
    pub fields: &'a [&'a str],
    /// The members of the structures to which parameters point.
    pub is_deep: bool,
}

/// An object of JSON. The user or the kernel chose the names of its members.
pub struct Members(Vec<(Rc<str>, Json)>);

impl FromIterator<(Rc<str>, Json)> for Members {
    fn from_iter<T: IntoIterator<Item = (Rc<str>, Json)>>(members: T) -> Self {
        Self(members.into_iter().collect())
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (&**name, value)))
    }
}

/// A return value in JSON.
#[derive(Serialize)]
pub struct Returned {
    ret: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The values of the records of an event.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// The parameters. `None` if BTF does not describe the function.
    parameters: Option<Vec<Value>>,
    returned: Option<Value>,
    shown: Vec<Value>,
}

impl Values {
    /// Values of the user, without types.
    pub fn plain(shown: &[&str]) -> Self {
        Self {
            shown: shown::plain(shown, &[]),
            ..Self::default()
        }
    }

    /// Values that are known, and others of the user without types.
    pub fn known(mut values: Vec<Value>, shown: &[&str]) -> Self {
        let names: Vec<&str> = values.iter().map(|value| &*value.name).collect();
        let more = shown::plain(shown, &names);
        values.extend(more);
        Self {
            shown: values,
            ..Self::default()
        }
    }

    /// The known values that the user chooses, or all of them, and other values of the user.
    pub fn chosen(mut values: Vec<Value>, chosen: &[&str], added: &[&str]) -> Result<Self> {
        let is_known = |name: &&&str| values.iter().any(|value| *value.name == ***name);
        let (names, others): (Vec<&&str>, Vec<&&str>) = chosen.iter().partition(is_known);
        if !chosen.is_empty() {
            values.retain(|value| names.iter().any(|name| *value.name == ***name));
        }
        let others: Vec<&str> = others.into_iter().chain(added).copied().collect();
        let taken: Vec<&str> = values.iter().map(|value| &*value.name).collect();
        let typed = btf::with(None, |btf| {
            shown::typed(btf, &Owner::Nothing, &others, &taken)
        });
        let others = typed.unwrap_or_else(|| Ok(shown::plain(&others, &taken)))?;
        values.extend(others);
        Ok(Self {
            shown: values,
            ..Self::default()
        })
    }

    /// The values of each function, and what the user wants. The return value has the name `returned`.
    pub fn of_each(
        known: &Functions,
        functions: &[String],
        returned: &str,
        more: More<'_>,
    ) -> Result<Vec<Self>> {
        let bytes = btf::read("vmlinux");
        let mut index = Vec::new();
        let kernel = btf::parse(&bytes, None, &mut index);
        let values = |function: &String| {
            let kernel = kernel.as_ref()?;
            let name = function.rsplit(':').next().unwrap_or(function);
            // All functions of a name in BTF have the same parameters.
            let name = name.strip_suffix("%all").unwrap_or(name);
            // One function can be of a module without its name in front. The kernel takes long to print its symbols.
            let module = match &functions {
                [one] if kernel.function(name).is_none() => {
                    known.module_of(one.strip_suffix("%all").unwrap_or(one))
                }
                _ => function.split_once(':').map(|(module, _)| module.into()),
            };
            let Some(module) = module else {
                return Some(Self::find(kernel, name, returned, more));
            };
            let bytes = btf::read(&module);
            let mut index = Vec::new();
            let module = btf::parse(&bytes, Some(kernel), &mut index)?;
            Some(Self::find(&module, name, returned, more))
        };
        let all = functions.iter();
        all.map(|function| values(function).unwrap_or_else(|| Ok(Self::plain(more.fields))))
            .collect()
    }

    /// The values of an object, `[NAME=]FETCHARG` of the user. `$obj` is the object. `module` finds the module that may
    /// have its structure, and is called only if there are values: the kernel takes long to print its symbols.
    pub fn of_object(
        module: impl FnOnce() -> Option<String>,
        structure: &str,
        shown: &[&str],
    ) -> Result<Self> {
        if shown.is_empty() {
            return Ok(Self::default());
        }
        let find = |btf: &Btf<'_>| Self::find_object(btf, structure, shown);
        // Not every module has BTF.
        let known = btf::with(module().as_deref(), find).or_else(|| btf::with(None, find));
        known.unwrap_or_else(|| Ok(Self::plain(shown)))
    }

    fn find_object(btf: &Btf<'_>, structure: &str, shown: &[&str]) -> Result<Self> {
        let kinds = [TypeKind::Struct, TypeKind::Union];
        let object = kinds.iter().find_map(|kind| btf.find(structure, *kind));
        let owner = object.map_or(Owner::Nothing, Owner::Object);
        Ok(Self {
            shown: shown::typed(btf, &owner, shown, &["object", "parameter"])?,
            ..Self::default()
        })
    }

    /// The values of a function.
    pub fn find(btf: &Btf<'_>, name: &str, returned: &str, more: More<'_>) -> Result<Self> {
        let function = btf.function(name);
        let owner = match &function {
            Some(function) => Owner::Function(name, function),
            None => Owner::Nothing,
        };
        let parameters = function.as_ref().map(|function| {
            let own = function.btf();
            let values = parameters(own, function, name);
            match more.is_deep {
                true => with_members(own, function, name, values),
                false => values,
            }
        });
        let own = parameters.iter().flatten();
        let names = own.flat_map(|value| [Some(value.name.to_string()), value.address_name()]);
        let names: Vec<String> = names.flatten().chain([returned.into()]).collect();
        let taken: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = shown::typed(btf, &owner, more.fields, &taken)?;
        Ok(Self {
            parameters,
            returned: function
                .as_ref()
                .map(|function| Value::new(returned, "$retval", result_kind(btf, function))),
            shown,
        })
    }

    /// Whether BTF describes the function.
    pub fn has_parameters(&self) -> bool {
        self.parameters.is_some()
    }

    /// The field with the address of a parameter that is a string.
    pub fn address_name(&self, parameter: &str) -> Option<String> {
        let mut parameters = self.parameters.iter().flatten();
        let found = parameters.find(|value| &*value.name == parameter)?;
        found.address_name()
    }

    /// The fetch arguments of the values that the user wants to see.
    pub fn shown_arguments(&self) -> String {
        join(&self.shown)
    }

    /// The fetch arguments of the parameters that are strings. Empty if there are none.
    pub fn text_arguments(&self) -> String {
        let all = self.parameters.iter().flatten();
        let texts = all.filter(|value| matches!(value.kind, Kind::Text(_)));
        texts.map(|value| format!(" {}", value.fetch)).collect()
    }

    /// The fetch arguments to try, the best first. With `has_result`, they include the return value, which some
    /// functions do not have, and BTF does not describe all functions. Members that someone asked for are not left out.
    pub fn fetch_arguments(&self, returned: &str, has_result: bool) -> Vec<String> {
        let shown = self.shown_arguments();
        let known = self.parameters.as_deref().map(join);
        let result = self.returned.as_ref().map_or_else(
            || format!(" {returned}=$retval"),
            |value| format!(" {}", value.fetch),
        );
        let mut all = self.parameters.iter().flatten();
        if all.any(|value| !value.members.is_empty()) {
            let known = known.unwrap_or_default() + &shown;
            return match has_result {
                true => vec![format!("{result}{known}"), known],
                false => vec![known],
            };
        }
        let plain = " $arg*".to_string();
        if !has_result {
            let all = known.into_iter().chain([plain, String::new()]);
            return all.map(|parameters| parameters + &shown).collect();
        }
        let mut all = Vec::new();
        for parameters in known.into_iter().chain([plain]) {
            all.push(format!("{result}{parameters}{shown}"));
            all.push(format!("{parameters}{shown}"));
        }
        all.push(format!(" {returned}=$retval{shown}"));
        all.push(shown);
        all
    }

    /// The arguments of a call, and what the user wants to see. `own` tells the other fields of the record.
    fn arguments(&self, record: &Record<'_>, own: &[&str]) -> Vec<Cow<'_, Value>> {
        let is_recorded = |value: &&Value| record.field(&value.name).is_some();
        let known = self.parameters.iter().flatten().chain(&self.shown);
        let known: Vec<&Value> = known.filter(is_recorded).collect();
        let is_known = |name: &str| {
            let is_it = |value: &&Value| value.has_field(name);
            let address_of = name.strip_suffix("_at");
            own.contains(&name)
                || address_of.is_some_and(|name| own.contains(&name))
                || known.iter().any(is_it)
        };
        // The kernel did not take the fetch arguments of the parameters, and took `$arg*`.
        let others = record.fields.iter().filter(|(name, _)| !is_known(name));
        let others = others.map(|(name, _)| Cow::Owned(Value::plain(name)));
        others
            .chain(known.iter().copied().map(Cow::Borrowed))
            .collect()
    }

    /// The arguments as in a call in C, and what the user wants to see. `own` are the other fields of the record.
    pub fn show(&self, record: &Record<'_>, own: &[&str]) -> String {
        let mut text = String::new();
        for value in self.arguments(record, own) {
            if !text.is_empty() {
                text += ", ";
            }
            text += &value.name;
            text.push('=');
            text += &value.show(record);
        }
        text
    }

    /// The same as JSON.
    pub fn json(&self, record: &Record<'_>, own: &[&str]) -> Members {
        let arguments = self.arguments(record, own).into_iter();
        let members = arguments.map(|value| (Rc::clone(&value.name), value.json(record)));
        members.collect()
    }

    /// The name of each value, with the value as text and as JSON.
    pub fn each(&self, record: &Record<'_>, own: &[&str]) -> Vec<(Rc<str>, String, Json)> {
        let arguments = self.arguments(record, own).into_iter();
        arguments
            .map(|value| {
                let (text, json) = (value.show(record).into_owned(), value.json(record));
                (Rc::clone(&value.name), text, json)
            })
            .collect()
    }

    /// The return value as text.
    pub fn show_result(&self, record: &Record<'_>, name: &str) -> Option<String> {
        record.field(name)?;
        let value = self.result(name);
        let error = value.error(record);
        Some(error.unwrap_or_else(|| value.show(record).into_owned()))
    }

    /// The same as JSON, with the name of the error that it is.
    pub fn json_result(&self, record: &Record<'_>, name: &str) -> Option<Returned> {
        record.field(name)?;
        let value = self.result(name);
        Some(Returned {
            ret: value.json(record),
            error: value
                .error(record)
                .map(|error| error.trim_start_matches('-').into()),
        })
    }

    fn result(&self, name: &str) -> Cow<'_, Value> {
        let known = self.returned.as_ref().map(Cow::Borrowed);
        known.unwrap_or_else(|| Cow::Owned(Value::plain(name)))
    }
}

/// The fetch arguments of values.
fn join(values: &[Value]) -> String {
    let all = values.iter().map(|value| format!(" {}", value.fetch));
    all.collect()
}

/// The parameters of the function `name`.
fn parameters(btf: &Btf<'_>, function: &Function<'_>, name: &str) -> Vec<Value> {
    let params: Vec<Param<'_>> = function.params().collect();
    let value = |(index, param)| {
        let next = params
            .get(index + 1)
            .filter(|next| is_length_of_buffer(btf, next));
        Value::parameter(btf, name, param, next.map(|next| next.name.into()))
    };
    params.iter().enumerate().map(value).collect()
}

/// The parameters of the function `name`, with the members of the structures to which they point.
fn with_members(
    btf: &Btf<'_>,
    function: &Function<'_>,
    name: &str,
    values: Vec<Value>,
) -> Vec<Value> {
    let mut deep = Deep::default();
    let values = values.into_iter().zip(function.params());
    let all = values
        .map(|(value, param)| match &value.kind {
            Kind::Pointer => {
                let members = deep.members(btf, param.ty, &value.name);
                value.with_members(members)
            }
            _ => value,
        })
        .collect();
    deep.say_left_out(name);
    all
}

/// Whether the name of a number says how long the buffer before it is.
pub fn is_length(name: &str) -> bool {
    ["count", "len", "length", "size", "n"].contains(&name)
}

/// Whether a parameter says how long the buffer before it is.
fn is_length_of_buffer(btf: &Btf<'_>, param: &Param<'_>) -> bool {
    let is_number = btf.resolve(param.ty).is_some_and(|ty| ty.int().is_some());
    is_number && is_length(param.name)
}

/// The kind of a return value.
fn result_kind(btf: &Btf<'_>, function: &Function<'_>) -> Kind {
    kind(btf, function.returned(), "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "cat-1 [000] ..... 1.0: e: (f+0x1/0x2) name_at=0x7f01 name=\"a\\b \"c\"\" text_at=0x7f02 \
        text=\"xyz\" len=2 gone_at=0x7f03 gone=(fault) null_at=0x0 null=(fault) on=1 kind=2 other=7 call=g+0x0/0x40 \
        data=0x0 error=0xfffffffffffffffe io_flags=16 mode=33188 task=\"cat\" rkprobe_ret=-12";

    /// The values of a function that has a parameter of each kind.
    fn values() -> Values {
        let more = More {
            fields: &["task=$current->comm"],
            is_deep: false,
        };
        with_types(|btf| Values::find(btf, "f", "rkprobe_ret", more).unwrap())
    }

    fn with_types(f: impl FnOnce(&Btf<'_>) -> Values) -> Values {
        let mut types = btf::builder::Builder::new();
        let int = types.int("int", 4, btf::builder::SIGNED);
        let char = types.int("char", 1, 0);
        let bool = types.int("bool", 1, btf::builder::BOOL);
        let short = types.int("unsigned short", 2, 0);
        let constant = types.refer(10, "", char);
        let text = types.ptr(constant);
        let buffer = types.ptr(char);
        let tail = [types.string("ONE"), 1, types.string("TWO"), 2];
        let kind = types.add("kind", 6 << 24 | 2, 4, &tail);
        let proto = types.add("", 13 << 24, int.get(), &[]);
        let call = types.ptr(proto);
        let mode = types.refer(8, "umode_t", short);
        let comm = types.array(char, 16);
        types.members(4, "task_struct", &[("pid", int, 0), ("comm", comm, 32)]);
        types.members(
            4,
            "object",
            &[
                ("mode", mode, 0),
                ("name", comm, 16),
                ("text", text, 192),
                ("kind", kind, 256),
            ],
        );
        types.function(
            "f",
            &[
                ("name", text),
                ("text", text),
                ("len", int),
                ("gone", text),
                ("null", text),
                ("on", bool),
                ("kind", kind),
                ("other", kind),
                ("call", call),
                ("data", buffer),
                ("error", buffer),
                ("io_flags", int),
                ("mode", mode),
            ],
            int,
        );
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        f(&btf)
    }

    #[test]
    fn values_without_a_name_take_none_of_a_field() {
        let more = More {
            fields: &["mode", "name", "$name_at", "$rkprobe_ret"],
            is_deep: false,
        };
        let found = with_types(|btf| Values::find(btf, "f", "rkprobe_ret", more).unwrap());
        let names: Vec<&str> = found.shown.iter().map(|value| &*value.name).collect();
        assert_eq!(names, ["mode2", "name2", "name_at2", "rkprobe_ret2"]);
        let object = Values::of_object(|| None, "object", &["$obj->object", "$obj->parameter"]);
        let names: Vec<String> = object
            .unwrap()
            .shown
            .iter()
            .map(|value| value.name.to_string())
            .collect();
        assert_eq!(names, ["object2", "parameter2"]);
    }

    #[test]
    fn members_of_an_object_have_types() {
        let shown = [
            "m=$obj->mode",
            "x=$obj->mode:x16",
            "n=$obj->name",
            "t=$obj->text",
            "k=$obj->kind",
            "task=$current->comm",
            "none=$obj->none",
        ];
        let values = with_types(|btf| Values::find_object(btf, "object", &shown).unwrap());
        assert_eq!(
            values.shown_arguments(),
            " m=$obj->mode x=$obj->mode:x16 n=$obj->name:string t_at=$obj->text:x64 t=$obj->text:string \
             k=$obj->kind task=$current->comm:string none=$obj->none"
        );
        let line = "cat-1 [000] ..... 1.0: e: (f+0x1/0x2) object=0xff parameter=1 unchanged=g+0x0/0x40 m=33188 \
            x=0x81a4 n=\"a\" t_at=0x0 t=(fault) k=2";
        let record = Record::parse(line, "e").unwrap();
        let own = ["object", "parameter"];
        assert_eq!(
            values.show(&record, &own),
            "unchanged=g+0x0/0x40, m=S_IFREG|0644, x=0x81a4, n=\"a\", t=NULL, k=TWO"
        );
        let each = values.each(&record, &own);
        let (name, text, json) = &each[3];
        assert_eq!((&**name, &**text, json), ("n", "\"a\"", &"a".into()));
        let unknown = with_types(|btf| Values::find_object(btf, "none", &shown[..1]).unwrap());
        assert_eq!(unknown.shown_arguments(), " m=$obj->mode");
    }

    /// The values of a function whose parameters point to a structure, with its members.
    fn deep_values() -> Values {
        let mut types = btf::builder::Builder::new();
        let int = types.int("int", 4, btf::builder::SIGNED);
        let mode = types.refer(8, "umode_t", int);
        let object = types.members(4, "object", &[("mode", mode, 0), ("size", int, 32)]);
        let pointer = types.ptr(object);
        types.function("f", &[("dir", pointer), ("n", int), ("old", pointer)], int);
        let bytes = types.bytes();
        let mut index = Vec::new();
        let btf = btf::parse(&bytes, None, &mut index).unwrap();
        let more = More {
            fields: &[],
            is_deep: true,
        };
        Values::find(&btf, "f", "rkprobe_ret", more).unwrap()
    }

    #[test]
    fn members_belong_to_their_parameter() {
        let values = deep_values();
        let fetch = " dir=dir member0=dir->mode member1=dir->size n=n old=old member2=old->mode member3=old->size";
        assert_eq!(values.fetch_arguments("", false), [fetch]);
        let with_result = values.fetch_arguments("rkprobe_ret", true);
        assert_eq!(with_result[0], format!(" rkprobe_ret=$retval{fetch}"));
        for (old, text, json) in [
            (
                "0xff02",
                "0xff02 {mode=S_IFREG|0644, size=8}",
                r#"{"address":"0xff02","members":{"mode":"S_IFREG|0644","size":8}}"#,
            ),
            ("0x0", "NULL", r#""0x0""#),
            ("0xfffffffffffffffe", "-ENOENT", r#""0xfffffffffffffffe""#),
        ] {
            let line = format!(
                "cat-1 [000] ..... 1.0: e: (f+0x1/0x2) dir=0xff01 member0=16877 member1=7 n=3 old={old} \
                 member2=33188 member3=8"
            );
            let record = Record::parse(&line, "e").unwrap();
            assert_eq!(
                values.show(&record, &[]),
                format!("dir=0xff01 {{mode=S_IFDIR|0755, size=7}}, n=3, old={text}")
            );
            let all = serde_json::to_string(&values.json(&record, &[])).unwrap();
            let dir = r#"{"address":"0xff01","members":{"mode":"S_IFDIR|0755","size":7}}"#;
            assert_eq!(all, format!(r#"{{"dir":{dir},"n":3,"old":{json}}}"#));
        }
    }

    #[test]
    fn types_decide_how_values_are_recorded() {
        let commands = values().fetch_arguments("rkprobe_ret", true);
        assert_eq!(
            commands[0],
            " rkprobe_ret=$retval name_at=name:x64 name=name:string text_at=text:x64 text=text:string len=len \
             gone_at=gone:x64 gone=gone:string null_at=null:x64 null=null:string on=on kind=kind other=other \
             call=call:symbol data=data error=error io_flags=io_flags mode=mode task=$current->comm:string"
        );
        let shown = " task=$current->comm:string";
        assert_eq!(commands.last().unwrap(), shown);
        assert!(commands.contains(&format!(" rkprobe_ret=$retval $arg*{shown}")));
        let unknown = Values::default();
        assert_eq!(unknown.fetch_arguments("", false), [" $arg*", ""]);
    }

    #[test]
    fn types_decide_how_values_are_shown() {
        let record = Record::parse(LINE, "e").unwrap();
        let values = values();
        assert_eq!(
            values.show(&record, &["rkprobe_ret"]),
            "name=\"a\\\\b \\\"c\\\"\", text=\"xy\", len=2, gone=0x7f03 (fault), null=NULL, on=true, kind=TWO, \
             other=7, call=g, data=NULL, error=-ENOENT, io_flags=0x10, mode=S_IFREG|0644, task=\"cat\""
        );
        assert_eq!(
            serde_json::to_string(&values.json(&record, &["rkprobe_ret"])).unwrap(),
            "{\"name\":\"a\\\\b \\\"c\\\"\",\"text\":\"xy\",\"len\":2,\"gone\":null,\"null\":null,\"on\":true,\
             \"kind\":\"TWO\",\"other\":7,\"call\":\"g\",\"data\":\"0x0\",\"error\":\"0xfffffffffffffffe\",\
             \"io_flags\":16,\"mode\":\"S_IFREG|0644\",\"task\":\"cat\"}"
        );
        let shown = values.show_result(&record, "rkprobe_ret");
        assert_eq!(shown.as_deref(), Some("-ENOMEM"));
        let result = values.json_result(&record, "rkprobe_ret");
        let result = serde_json::to_string(&result).unwrap();
        assert_eq!(result, "{\"ret\":-12,\"error\":\"ENOMEM\"}");
    }
}
