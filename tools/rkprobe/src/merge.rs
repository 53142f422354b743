// SPDX-License-Identifier: GPL-2.0

//! From the pages of several CPUs to records in the order of their times.
//!
//! A record comes after those of its CPU that the tool has read, so the tool must look at all other CPUs after it has
//! read a record, before it can say that no earlier record is left.

use std::{
    collections::VecDeque,
    io::{
        ErrorKind,
        Read, //
    },
    ops::Range, //
};

use crate::{
    failure::{
        Failure,
        Result, //
    },
    ring_buffer::{
        Layout,
        Lost,
        Page, //
    },
};

/// More than a page of a buffer. The kernel reads at most a page at once.
const MAX_PAGE: usize = 256 * 1024;

/// A record of a CPU.
#[derive(Debug, PartialEq)]
pub struct Raw<'a> {
    pub cpu: u32,
    /// In ns.
    pub time: u64,
    pub bytes: &'a [u8],
}

/// The buffer of a CPU.
struct Cpu<F> {
    number: u32,
    /// Reads a page at once.
    file: F,
    /// The last page that was read.
    page: Vec<u8>,
    /// Its records that are left: their times, and where they are in the page.
    queue: VecDeque<(u64, Range<usize>)>,
}

/// Merges the records of all CPUs.
pub struct Merge<F> {
    cpus: Vec<Cpu<F>>,
    layout: Layout,
    /// Where the next page is read.
    buffer: Vec<u8>,
}

impl<F: Read> Merge<F> {
    /// `files` have the numbers of their CPUs.
    pub fn new(files: impl IntoIterator<Item = (u32, F)>, layout: Layout) -> Self {
        let files = files.into_iter();
        let mut cpus: Vec<Cpu<F>> = files
            .map(|(number, file)| Cpu {
                number,
                file,
                page: Vec::new(),
                queue: VecDeque::new(),
            })
            .collect();
        // Of records with the same time, that of the lower number comes first.
        cpus.sort_by_key(|cpu| cpu.number);
        Self {
            cpus,
            layout,
            buffer: vec![0; MAX_PAGE],
        }
    }

    /// The files of the CPUs.
    pub fn files(&self) -> impl Iterator<Item = &F> {
        self.cpus.iter().map(|cpu| &cpu.file)
    }

    /// Reads a page of each CPU that has no records left, again and again until no CPU has new ones.
    /// Calls `lost` with the CPUs that lost records. Returns whether there are new records.
    pub fn fill(&mut self, mut lost: impl FnMut(u32, Lost)) -> Result<bool> {
        let mut is_read = false;
        loop {
            let mut has_new = false;
            for cpu in self.cpus.iter_mut().filter(|cpu| cpu.queue.is_empty()) {
                // A page can have only records that were dropped.
                while cpu.queue.is_empty()
                    && cpu.read_page(&mut self.buffer, &self.layout, &mut lost)?
                {}
                has_new |= !cpu.queue.is_empty();
            }
            is_read |= has_new;
            if !has_new {
                return Ok(is_read);
            }
        }
    }

    /// Whether no record is left.
    pub fn is_empty(&self) -> bool {
        self.cpus.iter().all(|cpu| cpu.queue.is_empty())
    }

    /// Gives the records in the order of their times, until no record of one of the CPUs is left.
    pub fn take_until_empty(&mut self, mut take: impl FnMut(Raw<'_>)) {
        loop {
            let full = self.cpus.iter_mut().filter_map(|cpu| {
                let time = cpu.queue.front()?.0;
                Some((time, cpu))
            });
            let Some((time, cpu)) = full.min_by_key(|(time, _)| *time) else {
                return;
            };
            if let Some((_, place)) = cpu.queue.pop_front() {
                take(Raw {
                    cpu: cpu.number,
                    time,
                    bytes: &cpu.page[place],
                });
            }
            if cpu.queue.is_empty() {
                return;
            }
        }
    }
}

impl<F: Read> Cpu<F> {
    /// Reads a page, after all records of the last one were taken. Returns whether there was one.
    fn read_page(
        &mut self,
        buffer: &mut [u8],
        layout: &Layout,
        lost: &mut impl FnMut(u32, Lost),
    ) -> Result<bool> {
        let length = match self.file.read(buffer) {
            Ok(length) => length,
            Err(error)
                if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) =>
            {
                0
            }
            Err(error) => return Err(Failure::file("trace_pipe_raw", &error)),
        };
        self.page.clear();
        self.page.extend_from_slice(&buffer[..length]);
        let Some(page) = Page::new(&self.page, layout) else {
            return Ok(false);
        };
        if page.lost != Lost::None {
            lost(self.number, page.lost);
        }
        self.queue.extend(page.records);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::ring_buffer::tests::{
        page_of_times,
        LAYOUT,
        LOST_SOME, //
    };

    /// A file whose reads return these pages. Without a page, it has none when it is read.
    struct Pages(VecDeque<Option<Vec<u8>>>);

    impl Read for Pages {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let page = self.0.pop_front().flatten();
            let page = page.ok_or(io::Error::from(ErrorKind::WouldBlock))?;
            buffer[..page.len()].copy_from_slice(&page);
            Ok(page.len())
        }
    }

    /// A merge of CPUs whose pages have records of these times.
    fn merge(cpus: &[(u32, &[Option<&[u64]>])]) -> Merge<Pages> {
        let page = |times: &Option<&[u64]>| times.map(|times| page_of_times(0, times));
        let files = cpus
            .iter()
            .map(|(number, pages)| (*number, Pages(pages.iter().map(page).collect())));
        Merge::new(files, LAYOUT)
    }

    /// The CPUs and the times of the records that a round of reading gives.
    fn round(merge: &mut Merge<Pages>) -> Vec<(u32, u64)> {
        let is_read = merge.fill(|cpu, _| panic!("CPU {cpu} lost records"));
        is_read.unwrap();
        taken(merge)
    }

    fn taken(merge: &mut Merge<Pages>) -> Vec<(u32, u64)> {
        let mut records = Vec::new();
        merge.take_until_empty(|raw| records.push((raw.cpu, raw.time)));
        records
    }

    #[test]
    fn records_of_two_cpus_are_in_the_order_of_their_times() {
        let mut merge = merge(&[(0, &[Some(&[1, 4, 6])]), (1, &[Some(&[2, 3, 5, 7])])]);
        let expected = [(0, 1), (1, 2), (1, 3), (0, 4), (1, 5), (0, 6)];
        assert_eq!(round(&mut merge), expected);
        assert!(!merge.is_empty());
        assert_eq!(round(&mut merge), [(1, 7)]);
        assert!(merge.is_empty() && round(&mut merge).is_empty());
    }

    #[test]
    fn of_equal_times_the_lower_cpu_is_first() {
        let mut merge = merge(&[(10, &[Some(&[5, 5])]), (2, &[Some(&[5, 5, 6])])]);
        assert_eq!(round(&mut merge), [(2, 5), (2, 5), (10, 5), (10, 5)]);
        assert_eq!(round(&mut merge), [(2, 6)]);
    }

    #[test]
    fn a_cpu_without_records_keeps_no_other_from_going_on() {
        let mut merge = merge(&[(0, &[]), (1, &[Some(&[1, 2]), Some(&[3])])]);
        assert_eq!(round(&mut merge), [(1, 1), (1, 2)]);
        assert_eq!(round(&mut merge), [(1, 3)]);
    }

    #[test]
    fn the_next_page_of_a_cpu_is_read_before_later_records_of_others() {
        let mut merge = merge(&[(0, &[Some(&[1, 5, 9])]), (1, &[Some(&[2]), Some(&[4, 8])])]);
        assert_eq!(round(&mut merge), [(0, 1), (1, 2)]);
        assert_eq!(round(&mut merge), [(1, 4), (0, 5), (1, 8)]);
        assert_eq!(round(&mut merge), [(0, 9)]);
    }

    #[test]
    fn a_page_that_comes_during_a_round_can_have_earlier_records() {
        // The first CPU has a page only when the second one was read.
        let mut merge = merge(&[(0, &[None, Some(&[2, 4])]), (1, &[Some(&[3])])]);
        assert_eq!(round(&mut merge), [(0, 2), (1, 3)]);
        assert_eq!(round(&mut merge), [(0, 4)]);
    }

    #[test]
    fn a_page_without_records_does_not_end_a_round() {
        let mut merge = merge(&[(0, &[Some(&[]), Some(&[]), Some(&[3])]), (1, &[])]);
        assert_eq!(round(&mut merge), [(0, 3)]);
    }

    #[test]
    fn records_that_were_lost_before_a_page_are_reported_once() {
        let lost = Pages([Some(page_of_times(LOST_SOME, &[3, 5]))].into());
        let whole = Pages([Some(page_of_times(0, &[1, 4]))].into());
        let mut merge = Merge::new([(0, lost), (1, whole)], LAYOUT);
        let mut all = Vec::new();
        for records in [vec![(1, 1), (0, 3), (1, 4)], vec![(0, 5)], vec![]] {
            let is_read = merge.fill(|cpu, lost| all.push((cpu, lost)));
            assert_eq!(is_read.unwrap(), records.len() == 3);
            assert_eq!(taken(&mut merge), records);
        }
        assert_eq!(all, [(0, Lost::Unknown)]);
    }
}
