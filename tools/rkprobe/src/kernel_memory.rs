// SPDX-License-Identifier: GPL-2.0

//! The kernel's memory, in `/proc/kcore`: an ELF core file whose segments are the mapped addresses.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt, //
};

const PATH: &str = "/proc/kcore";
/// The size of the ELF header, and the offsets of its fields.
const HEADER: usize = 64;
const PROGRAM_HEADERS: usize = 32;
const PROGRAM_HEADER_SIZE: usize = 54;
const PROGRAM_HEADER_COUNT: usize = 56;
/// A segment with memory. C: `PT_LOAD`.
const LOAD: u32 = 1;

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

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?).into())
}

/// The segment of a program header.
fn segment(header: &[u8]) -> Option<Segment> {
    let kind = header.get(..4)?;
    if u32::from_ne_bytes(kind.try_into().ok()?) != LOAD {
        return None;
    }
    Some(Segment {
        offset: word(header, 8)?,
        address: word(header, 16)?,
        size: word(header, 40)?,
    })
}

impl Memory {
    /// Opens the file, which only root can read, and not under lockdown.
    pub fn open() -> io::Result<Self> {
        let file = File::open(PATH)?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let at = word(&header, PROGRAM_HEADERS).ok_or_else(wrong)?;
        let size = half(&header, PROGRAM_HEADER_SIZE).ok_or_else(wrong)?;
        let count = half(&header, PROGRAM_HEADER_COUNT).ok_or_else(wrong)?;
        let mut headers = vec![0; size * count];
        file.read_exact_at(&mut headers, at)?;
        let segments = headers.chunks_exact(size.max(1)).filter_map(segment);
        Ok(Self {
            segments: segments.collect(),
            file,
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
        let mut header = vec![0; 56];
        header[..4].copy_from_slice(&LOAD.to_ne_bytes());
        header[8..16].copy_from_slice(&0x1000_u64.to_ne_bytes());
        header[16..24].copy_from_slice(&0xffff_0000_u64.to_ne_bytes());
        header[40..48].copy_from_slice(&0x2000_u64.to_ne_bytes());
        let expected = Segment {
            address: 0xffff_0000,
            size: 0x2000,
            offset: 0x1000,
        };
        assert_eq!(segment(&header), Some(expected));
        header[0] = 4;
        assert_eq!(segment(&header), None);
        assert_eq!(segment(&header[..20]), None);
    }
}
