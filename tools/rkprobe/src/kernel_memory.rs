// SPDX-License-Identifier: GPL-2.0

//! The kernel's memory, in `/proc/kcore`: an ELF core file whose segments are the mapped addresses.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt, //
};

use object::{
    elf::{
        FileHeader64,
        ProgramHeader64,
        PT_LOAD, //
    },
    read::elf::{
        FileHeader,
        ProgramHeader, //
    },
    NativeEndian,
    ReadCache,
    ReadRef, //
};

const PATH: &str = "/proc/kcore";

/// Memory with its place in the file.
#[derive(Debug, PartialEq)]
struct Segment {
    address: u64,
    size: u64,
    offset: u64,
}

/// The kernel's memory.
pub struct Memory {
    file: File,
    segments: Vec<Segment>,
}

/// The segments of an ELF file that have memory.
fn segments<'d>(data: impl ReadRef<'d>) -> object::Result<Vec<Segment>> {
    let header = FileHeader64::<NativeEndian>::parse(data)?;
    let endian = header.endian()?;
    let headers = header.program_headers(endian, data)?.iter();
    let loaded = headers.filter(|header| header.p_type(endian) == PT_LOAD);
    let segment = |header: &_| {
        let header: &ProgramHeader64<NativeEndian> = header;
        Segment {
            address: header.p_vaddr(endian),
            size: header.p_memsz(endian),
            offset: header.p_offset(endian),
        }
    };
    Ok(loaded.map(segment).collect())
}

impl Memory {
    /// Opens the file, which only root can read, and not under lockdown.
    pub fn open() -> io::Result<Self> {
        let segments = segments(&ReadCache::new(File::open(PATH)?));
        Ok(Self {
            segments: segments.map_err(io::Error::other)?,
            file: File::open(PATH)?,
        })
    }

    /// Fills `buffer` from an address. `None` if the memory cannot be read.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let length = buffer.len() as u64;
        let has_it = |segment: &&Segment| {
            let at = address.checked_sub(segment.address);
            at.is_some_and(|at| at < segment.size && length <= segment.size - at)
        };
        let segment = self.segments.iter().find(has_it)?;
        let offset = segment.offset + (address - segment.address);
        self.file.read_exact_at(buffer, offset).ok()
    }

    /// The word of 64 bits at an address.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// The number of 32 bits at an address.
    pub fn number(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Some(u32::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_one_with_memory() {
        const HEADER: usize = 64;
        const PROGRAM_HEADER: usize = 56;
        // C: `PT_NOTE`.
        let kinds = [PT_LOAD, 4];
        let mut file = vec![0; HEADER + kinds.len() * PROGRAM_HEADER];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        let data = if cfg!(target_endian = "little") { 1 } else { 2 };
        put(0, &[0x7f, b'E', b'L', b'F', 2, data, 1]);
        put(32, &(HEADER as u64).to_ne_bytes());
        put(54, &(PROGRAM_HEADER as u16).to_ne_bytes());
        put(56, &(kinds.len() as u16).to_ne_bytes());
        for (index, kind) in kinds.iter().enumerate() {
            let at = HEADER + index * PROGRAM_HEADER;
            put(at, &kind.to_ne_bytes());
            put(at + 8, &0x1000_u64.to_ne_bytes());
            put(at + 16, &0xffff_0000_u64.to_ne_bytes());
            put(at + 40, &0x2000_u64.to_ne_bytes());
        }
        let expected = Segment {
            address: 0xffff_0000,
            size: 0x2000,
            offset: 0x1000,
        };
        assert_eq!(segments(&*file), Ok(vec![expected]));
        assert!(segments(&file[..HEADER]).is_err());
        assert!(segments(&file[..20]).is_err());
    }
}
