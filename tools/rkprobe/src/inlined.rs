// SPDX-License-Identifier: GPL-2.0

//! Functions that exist only as copies in other functions, by the debug information.
//!
//! BTF does not know them: it describes the functions that have symbols.

use std::{
    collections::HashSet,
    fs::{
        self,
        File, //
    },
    path::Path, //
};

use gimli::{
    AttributeValue,
    DebuggingInformationEntry,
    Dwarf,
    EndianSlice,
    NativeEndian,
    Unit,
    UnitOffset, //
};
use memchr::memmem;
use object::{
    read::ReadCache,
    CompressionFormat,
    Object,
    ObjectKind,
    ObjectSection,
    ReadRef, //
};

use crate::{
    debug_files::Sought,
    relocate, //
};

type Bytes<'d> = EndianSlice<'d, NativeEndian>;
type Entry<'a, 'd> = DebuggingInformationEntry<'a, 'a, Bytes<'d>>;

/// What to find.
pub struct Question<'q> {
    pub function: &'q str,
    /// Which functions can be in the answer.
    pub is_wanted: &'q dyn Fn(&str) -> bool,
    /// How many functions end the search.
    pub most: usize,
}

impl Question<'_> {
    /// The functions that contain copies of a function. `module` is empty for the kernel. `None` if there is no debug
    /// information, or if it does not say that the compiler inlined the function.
    pub fn ask(&self, module: &str) -> Option<Vec<String>> {
        let sought = Sought::of(module)?;
        let mut paths = sought.paths.iter();
        paths.find_map(|path| self.ask_file(path, &sought.id))
    }

    fn ask_file(&self, path: &Path, id: &[u8]) -> Option<Vec<String>> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let object = object::File::parse(&cache).ok()?;
        if object.build_id().ok()?? != id {
            return None;
        }
        if object.kind() != ObjectKind::Relocatable {
            return self.ask_object(&object);
        }
        let mut image = fs::read(path).ok()?;
        relocate::place(&mut image)?;
        self.ask_object(&object::File::parse(&*image).ok()?)
    }

    fn ask_object<'d, R: ReadRef<'d>>(&self, object: &object::File<'d, R>) -> Option<Vec<String>> {
        let section = |name: &str| {
            let section = object.section_by_name(name);
            let data = section.and_then(|section| section.compressed_data().ok());
            data.filter(|data| data.format == CompressionFormat::None)
                .map_or(&[][..], |data| data.data)
        };
        let load = |id: gimli::SectionId| Ok(Bytes::new(section(id.name()), NativeEndian));
        let dwarf = Dwarf::load::<_, gimli::Error>(load).ok()?;
        let information = section(".debug_info");
        let places = self.places(information, section(".debug_str"));
        // With a table of strings for each unit, the places of the names are unknown.
        let is_everywhere = !section(".debug_str_offsets").is_empty();

        let mut is_inlined = false;
        let mut found = Vec::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next().ok()? {
            let start = header.offset().as_debug_info_offset()?.0;
            let end = start + header.length_including_self();
            let next = places.partition_point(|place| *place < start);
            if !is_everywhere && places.get(next).is_none_or(|place| *place >= end) {
                continue;
            }
            let unit = dwarf.unit(header).ok()?;
            is_inlined |= self.search(&dwarf, &unit, &mut found).ok()?;
            if found.len() >= self.most {
                break;
            }
        }
        is_inlined.then_some(found)
    }

    /// The places in the debug information where the name can be, in ascending order.
    fn places(&self, information: &[u8], strings: &[u8]) -> Vec<usize> {
        let name = [self.function.as_bytes(), b"\0"].concat();
        let offsets = memmem::find_iter(strings, &name).filter_map(|at| u32::try_from(at).ok());
        let marks: Vec<Vec<u8>> = offsets.map(|offset| offset.to_ne_bytes().into()).collect();
        let marks = marks.iter().chain([&name]);
        let mut places: Vec<usize> = marks
            .flat_map(|mark| memmem::find_iter(information, mark))
            .collect();
        places.sort_unstable();
        places
    }

    /// Adds the functions of a unit that contain copies. Returns whether the unit has the function as an inlined one.
    fn search(
        &self,
        dwarf: &Dwarf<Bytes<'_>>,
        unit: &Unit<Bytes<'_>>,
        found: &mut Vec<String>,
    ) -> gimli::Result<bool> {
        let mut inlined = HashSet::new();
        // The original of each copy, and the function that contains it.
        let mut copies = Vec::new();
        let mut functions: Vec<(isize, UnitOffset)> = Vec::new();
        let mut depth = 0;
        let mut entries = unit.entries();
        while let Some((down, entry)) = entries.next_dfs()? {
            depth += down;
            match entry.tag() {
                gimli::DW_TAG_subprogram => {
                    functions.retain(|(above, _)| *above < depth);
                    functions.push((depth, entry.offset()));
                    if is_inline(entry)? && name(dwarf, unit, entry)? == Some(self.function) {
                        inlined.insert(entry.offset());
                    }
                }
                gimli::DW_TAG_inlined_subroutine => {
                    functions.retain(|(above, _)| *above < depth);
                    if let (Some(original), Some((_, function))) =
                        (original(entry)?, functions.last())
                    {
                        copies.push((original, *function));
                    }
                }
                _ => {}
            }
        }
        for (_, function) in copies.iter().filter(|(of, _)| inlined.contains(of)) {
            let name = name(dwarf, unit, &unit.entry(*function)?)?;
            let Some(name) = name.filter(|name| (self.is_wanted)(name)) else {
                continue;
            };
            if found.len() < self.most && !found.iter().any(|other| other == name) {
                found.push(name.into());
            }
        }
        Ok(!inlined.is_empty())
    }
}

fn is_inline(entry: &Entry<'_, '_>) -> gimli::Result<bool> {
    let value = entry.attr_value(gimli::DW_AT_inline)?;
    Ok(matches!(
        value,
        Some(AttributeValue::Inline(
            gimli::DW_INL_inlined | gimli::DW_INL_declared_inlined
        ))
    ))
}

/// The entry that describes what a copy is of.
fn original(entry: &Entry<'_, '_>) -> gimli::Result<Option<UnitOffset>> {
    Ok(match entry.attr_value(gimli::DW_AT_abstract_origin)? {
        Some(AttributeValue::UnitRef(original)) => Some(original),
        _ => None,
    })
}

/// The name of a function.
fn name<'d>(
    dwarf: &Dwarf<Bytes<'d>>,
    unit: &Unit<Bytes<'d>>,
    entry: &Entry<'_, 'd>,
) -> gimli::Result<Option<&'d str>> {
    let named = match entry.attr_value(gimli::DW_AT_name)? {
        Some(value) => Some(value),
        None => match original(entry)? {
            Some(original) => unit.entry(original)?.attr_value(gimli::DW_AT_name)?,
            None => None,
        },
    };
    let Some(named) = named else {
        return Ok(None);
    };
    let text = dwarf.attr_string(unit, named)?;
    Ok(std::str::from_utf8(text.slice()).ok())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[inline(always)]
    fn rkprobe_copied(number: u32) -> u32 {
        std::hint::black_box(number) + 1
    }

    /// This test is a program with debug information, and these are some of its functions.
    #[inline(never)]
    fn rkprobe_holder_of_copies(number: u32) -> u32 {
        rkprobe_copied(rkprobe_copied(number))
    }

    #[inline(never)]
    fn rkprobe_other_holder(number: u32) -> u32 {
        rkprobe_copied(number)
    }

    #[test]
    fn finds_the_functions_that_contain_copies() {
        assert_eq!(rkprobe_holder_of_copies(1) + rkprobe_other_holder(1), 5);
        let path = env::current_exe().unwrap();
        let bytes = fs::read(&path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let id = object.build_id().unwrap().unwrap();
        let ask = |function: &str, most, except: &str| {
            let question = Question {
                function,
                is_wanted: &|name| name != except,
                most,
            };
            let found = question.ask_file(&path, id);
            found.map(|mut names| {
                names.sort();
                names.join(" ")
            })
        };
        let both = "rkprobe_holder_of_copies rkprobe_other_holder";
        assert_eq!(ask("rkprobe_copied", 3, "").as_deref(), Some(both));
        let one = ask("rkprobe_copied", 3, "rkprobe_holder_of_copies");
        assert_eq!(one.as_deref(), Some("rkprobe_other_holder"));
        assert!(!ask("rkprobe_copied", 1, "").unwrap().contains(' '));
        assert_eq!(ask("rkprobe_other_holder", 3, ""), None);
        assert_eq!(ask("rkprobe_no_such_function", 3, ""), None);
        let question = Question {
            function: "rkprobe_copied",
            is_wanted: &|_| true,
            most: 1,
        };
        assert!(question.ask_file(&path, &id[1..]).is_none());
    }
}
