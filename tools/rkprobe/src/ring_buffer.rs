// SPDX-License-Identifier: GPL-2.0

//! Pages of the kernel's ring buffer, as `trace_pipe_raw` has them.
//!
//! A page is a head, with a time and the number of bytes that follow, and entries. The first word of an entry has its
//! type in the lower 5 bits, and above them the time since the entry before. C: `struct buffer_data_page`,
//! `struct ring_buffer_event`.

use std::ops::Range;

use crate::format::Field;

/// The records before a page were lost. C: `RB_MISSED_EVENTS`.
const LOST: u64 = 1 << 31;
/// Their number is after the entries. C: `RB_MISSED_STORED`.
const LOST_STORED: u64 = 1 << 30;
/// The largest type of a record whose type is its length in words. C: `RINGBUF_TYPE_DATA_TYPE_LEN_MAX`.
const LAST_LENGTH: u32 = 28;
/// The types of other entries. C: `enum ring_buffer_type`.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The bits of a time that an entry with a time lacks. C: `TS_MSB`.
const UPPER_BITS: u64 = 0xf8 << 56;

/// Where the parts of a page are.
#[derive(Debug, PartialEq)]
pub struct Layout {
    commit: usize,
    data: usize,
}

impl Layout {
    /// Parses the file `header_page`.
    pub fn parse(text: &str) -> Option<Self> {
        let offset = |name| {
            let mut fields = text.lines().filter_map(Field::parse);
            Some(fields.find(|field| &*field.name == name)?.offset)
        };
        Some(Self {
            commit: offset("commit")?,
            data: offset("data")?,
        })
    }
}

/// Records that the kernel lost.
#[derive(Debug, PartialEq)]
pub enum Lost {
    None,
    Some(u64),
    /// The kernel does not say how many.
    Unknown,
}

/// A page.
pub struct Page<'a> {
    /// The records that were lost before those of the page.
    pub lost: Lost,
    /// The records with their times.
    pub records: Records<'a>,
}

impl<'a> Page<'a> {
    /// Takes the page apart. Returns `None` if it has no whole head.
    pub fn new(bytes: &'a [u8], layout: &Layout) -> Option<Self> {
        let commit = word64(bytes, layout.commit)?;
        let data = bytes.get(layout.data..)?;
        let length = usize::try_from(commit & (LOST_STORED - 1)).ok()?;
        let (entries, rest) = data.split_at(length.min(data.len()));
        let lost = match (commit & LOST, commit & LOST_STORED) {
            (0, _) => Lost::None,
            (_, 0) => Lost::Unknown,
            _ => word64(rest, 0).map_or(Lost::Unknown, Lost::Some),
        };
        Some(Self {
            lost,
            records: Records {
                time: word64(bytes, 0)?,
                entries,
                start: layout.data,
            },
        })
    }
}

/// The records of a page.
pub struct Records<'a> {
    time: u64,
    entries: &'a [u8],
    /// Where the entries are in the page.
    start: usize,
}

impl Iterator for Records<'_> {
    /// The time in ns, and where the record is in the page.
    type Item = (u64, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        // Each round takes at least the head of an entry.
        loop {
            let entries = self.entries;
            let head = word32(entries, 0)?;
            let (ty, delta) = (head & 31, u64::from(head >> 5));
            let second = || word32(entries, 4);
            let long = || Some((u64::from(second()?) << 27) | delta);
            let (start, length) = match ty {
                // The length includes the word that has it.
                0 => (8, second()?.checked_sub(4)?),
                1..=LAST_LENGTH => (4, ty * 4),
                // The rest of the page has no entries.
                PADDING if delta == 0 => return None,
                PADDING => (4, second()?),
                _ => (8, 0),
            };
            let end = usize::try_from(length).ok()?.checked_add(start)?;
            self.entries = entries.get(end..)?;
            let record = self.start + start..self.start + end;
            self.start = record.end;
            match ty {
                PADDING => {}
                TIME_EXTEND => self.time = self.time.wrapping_add(long()?),
                TIME_STAMP => self.time = whole_time(long()?, self.time),
                _ => {
                    self.time = self.time.wrapping_add(delta);
                    return Some((self.time, record));
                }
            }
        }
    }
}

/// A time whose upper bits are those of the time before. C: `rb_fix_abs_ts()`.
fn whole_time(time: u64, before: u64) -> u64 {
    let upper = before & UPPER_BITS;
    match (time & !UPPER_BITS) | upper {
        time if upper != 0 && time < before => time.wrapping_add(1 << 59),
        time => time,
    }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const LAYOUT: Layout = Layout {
        commit: 8,
        data: 16,
    };
    /// The flag of a page before which records were lost.
    pub const LOST_SOME: u64 = LOST;

    /// A page of records of one word, at these times.
    pub fn page_of_times(flags: u64, times: &[u64]) -> Vec<u8> {
        let start = times.first().copied().unwrap_or(0);
        let mut bytes = start.to_ne_bytes().to_vec();
        bytes.extend((flags | (8 * times.len() as u64)).to_ne_bytes());
        let mut before = start;
        for time in times {
            let head = ((time - before) as u32) << 5 | 1;
            bytes.extend([head, 0].iter().flat_map(|word| word.to_ne_bytes()));
            before = *time;
        }
        bytes
    }

    fn page(commit: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = [1000_u64.to_ne_bytes(), commit.to_ne_bytes()].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn records(bytes: &[u8]) -> (Lost, Vec<(u64, Vec<u8>)>) {
        let page = Page::new(bytes, &LAYOUT).unwrap();
        let records = page.records.map(|(time, at)| (time, bytes[at].into()));
        (page.lost, records.collect())
    }

    #[test]
    fn the_kernel_says_where_the_parts_are() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char overwrite;\toffset:8;\tsize:1;\tsigned:0;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(Layout::parse(text), Some(LAYOUT));
        assert_eq!(Layout::parse("field: u64 data;"), None);
    }

    #[test]
    fn entries_of_all_types() {
        let head = |ty: u32, delta: u32| delta << 5 | ty;
        let entries = [
            // A record of one word, and one with a length.
            head(1, 10),
            0x4433_2211,
            head(0, 5),
            12,
            7,
            8,
            // A record that was dropped, whose time does not count.
            head(29, 9),
            8,
            0,
            // A long time.
            head(30, 3),
            1,
            head(1, 1),
            9,
            // A time, and the next record at the same time.
            head(31, 5),
            2,
            head(1, 0),
            10,
            // The rest is empty.
            head(29, 0),
            head(1, 1),
            11,
        ];
        let bytes = page(4 * entries.len() as u64, &entries);
        let (lost, all) = records(&bytes);
        assert_eq!(lost, Lost::None);
        let word = |number: u32| number.to_ne_bytes().to_vec();
        let long = 1015 + (1 << 27) + 3;
        assert_eq!(
            all,
            [
                (1010, word(0x4433_2211)),
                (1015, [word(7), word(8)].concat()),
                (long + 1, word(9)),
                ((2 << 27) + 5, word(10)),
            ]
        );
    }

    #[test]
    fn the_kernel_says_which_records_were_lost() {
        let entry = [1 << 5 | 1, 42];
        let of = |commit, words: &[u32]| {
            let (lost, all) = records(&page(commit, words));
            (lost, all.len())
        };
        assert_eq!(of(8, &entry), (Lost::None, 1));
        assert_eq!(of(8 | LOST, &entry), (Lost::Unknown, 1));
        let stored = 8 | LOST | LOST_STORED;
        assert_eq!(of(stored, &[33, 42, 5, 0]), (Lost::Some(5), 1));
        assert_eq!(of(stored, &entry), (Lost::Unknown, 1));
        assert_eq!(of(0, &entry), (Lost::None, 0));
        assert!(Page::new(&[0; 15], &LAYOUT).is_none());
    }

    #[test]
    fn a_time_has_the_upper_bits_of_the_time_before() {
        assert_eq!(whole_time(5, 3), 5);
        assert_eq!(whole_time(5, 1 << 60), 1 << 60 | 5);
        assert_eq!(whole_time(5, 1 << 60 | 9), (1 << 60) + (1 << 59) + 5);
    }

    /// Bytes that look random.
    fn noise(seed: u64) -> impl Iterator<Item = u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
    }

    #[test]
    fn any_bytes_end_and_stay_inside() {
        for seed in 0..2000 {
            let length = seed as usize % 300;
            let bytes: Vec<u8> = noise(seed).take(length).collect();
            let Some(page) = Page::new(&bytes, &LAYOUT) else {
                assert!(length < 16);
                continue;
            };
            let sizes = page.records.map(|(_, record)| record.len() + 4);
            assert!(sizes.sum::<usize>() <= length);
            // Entries that are small are more often whole.
            let mut small = page_of_small(seed);
            let records = Page::new(&small, &LAYOUT).unwrap().records;
            let count = records.count();
            assert!(count <= small.len() / 4);
            small.truncate(length.max(16));
            assert!(Page::new(&small, &LAYOUT).unwrap().records.count() <= count);
        }
    }

    fn page_of_small(seed: u64) -> Vec<u8> {
        let words: Vec<u32> = noise(seed).take(200).map(u32::from).collect();
        page(800, &words)
    }
}
