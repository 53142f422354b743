// SPDX-License-Identifier: GPL-2.0

//! The table of lines of a compilation unit, by the debug information.

use std::collections::BTreeMap;

use gimli::{
    Dwarf,
    Unit, //
};

use crate::dwarf::Bytes;

/// A row of the table of lines.
pub struct Row {
    pub address: u64,
    /// The number of its file.
    pub file: u64,
    pub line: u64,
    pub is_statement: bool,
}

/// The rows of a unit, in the order of their addresses, and the names of its files.
pub struct Rows {
    pub rows: Vec<Row>,
    pub files: BTreeMap<u64, String>,
}

impl Rows {
    pub fn of<'d>(dwarf: &Dwarf<Bytes<'d>>, unit: &Unit<Bytes<'d>>) -> gimli::Result<Self> {
        let mut all = Self {
            rows: Vec::new(),
            files: files(dwarf, unit, |_| true)?,
        };
        let Some(program) = unit.line_program.clone() else {
            return Ok(all);
        };
        let mut rows = program.rows();
        while let Some((_, row)) = rows.next_row()? {
            // The linker gives the address 0 to what it removes.
            if row.address() > 0 {
                all.rows.push(Row {
                    address: row.address(),
                    file: row.file_index(),
                    line: row.line().map_or(0, |line| line.get()),
                    is_statement: row.is_stmt() && !row.end_sequence(),
                });
            }
        }
        all.rows.sort_by_key(|row| row.address);
        Ok(all)
    }

    /// The line of the code at an address.
    pub fn line_at(&self, address: u64) -> Option<(String, u64)> {
        let end = self.rows.partition_point(|row| row.address <= address);
        let row = self.rows[..end].last()?;
        let file = self.files.get(&row.file)?;
        (row.line > 0).then(|| (file.clone(), row.line))
    }
}

/// The wanted files of a unit, by their numbers.
pub fn files<'d>(
    dwarf: &Dwarf<Bytes<'d>>,
    unit: &Unit<Bytes<'d>>,
    is_wanted: impl Fn(&str) -> bool,
) -> gimli::Result<BTreeMap<u64, String>> {
    let mut found = BTreeMap::new();
    let Some(program) = &unit.line_program else {
        return Ok(found);
    };
    let header = program.header();
    let text = |value| -> gimli::Result<&'d str> {
        let text = dwarf.attr_string(unit, value)?;
        Ok(std::str::from_utf8(text.slice()).unwrap_or(""))
    };
    // Before version 5, the files are counted from 1.
    let first = u64::from(header.version() < 5);
    for (number, file) in (first..).zip(header.file_names()) {
        let name = text(file.path_name())?;
        let directory = match file.directory_index() {
            0 => None,
            _ => file.directory(header),
        };
        let directory = directory.map(text).transpose()?.unwrap_or("");
        let path = match directory.trim_start_matches("./") {
            "" | "." => name.into(),
            directory => format!("{directory}/{name}"),
        };
        if is_wanted(&path) {
            found.insert(number, path);
        }
    }
    Ok(found)
}
