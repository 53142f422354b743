// SPDX-License-Identifier: GPL-2.0

//! Reads of memory that may be missing, and of strings there.

use kernel::prelude::*;

#[kunit_tests(ktrace_nofault)]
mod tests {
    use super::*;

    use core::convert::Infallible;

    use ktrace::nofault::{
        read_kernel,
        read_user,
        read_user_short,
        Fault,
        KernelPtr,
        UserPtr, //
    };
    use probe::{
        arch::Register,
        argument::{
            Argument,
            Base,
            Deref,
            Fetch,
            Name,
            Step,
            Steps, //
        },
        fetch,
        types::{
            FetchType,
            Space, //
        },
    };

    use crate::kunit_targets::user_page;

    /// At least the size of a page.
    const PAGE: usize = 4096;

    /// Addresses without memory in any kernel: in neither half, and at the start of user space.
    const NOWHERE: [usize; 3] = [1 << 63, 0, 8];

    /// A page with `text` at its end, and no memory after it: vmalloc leaves a page free there.
    fn page_that_ends_with(text: &[u8]) -> Result<VVec<u8>> {
        let mut page = VVec::from_elem(b'.', PAGE, GFP_KERNEL)?;
        for (to, from) in page.iter_mut().rev().zip(text.iter().rev()) {
            *to = *from;
        }
        Ok(page)
    }

    fn end_of(page: &[u8]) -> usize {
        page.as_ptr_range().end.addr()
    }

    #[test]
    fn kernel_memory_is_read() -> Result {
        let word = KBox::new(0x0123_4567_89ab_cdef_u64, GFP_KERNEL)?;
        let address = core::ptr::from_ref(&*word).addr();
        let mut whole = [0; 8];
        let mut part = [0xff; 4];
        let read = [
            read_kernel(address, &mut whole),
            read_kernel(address + 1, &mut part[..3]),
            read_kernel(address, &mut []),
        ];
        assert_eq!(read, [Ok(()); 3]);
        assert_eq!(u64::from_ne_bytes(whole), *word);
        assert_eq!(part, [0xcd, 0xab, 0x89, 0xff]);
        Ok(())
    }

    #[test]
    fn memory_ends_with_its_page() -> Result {
        let page = page_that_ends_with(b"12345678")?;
        let end = end_of(&page);
        let mut bytes = [0; 8];
        let whole = read_kernel(end - 8, &mut bytes);
        let last = read_kernel(end - 1, &mut [0; 1]);
        let beyond = [
            read_kernel(end - 7, &mut [0; 8]),
            read_kernel(end - 1, &mut [0; 2]),
            read_kernel(end, &mut [0; 1]),
        ];
        assert_eq!([whole, last], [Ok(()); 2]);
        assert_eq!(bytes, *b"12345678");
        assert_eq!(beyond, [Err(Fault); 3]);
        Ok(())
    }

    #[test]
    fn what_is_not_mapped_is_a_fault() {
        for address in NOWHERE {
            assert_eq!(read_kernel(address, &mut [0; 8]), Err(Fault));
            assert_eq!(read_user(address, &mut [0; 8]), Err(Fault));
            assert_eq!(read_user_short(address, &mut [0; 8]), Err(Fault));
        }
        assert_eq!(read_kernel(usize::MAX - 3, &mut [0; 8]), Err(Fault));
    }

    #[test]
    fn user_memory_is_read_as_such_only() {
        let address = user_page(0x0123_4567_89ab_cdef);
        assert!(address != 0);
        let end = address + PAGE;
        let mut word = [0; 8];
        assert_eq!(read_user(end - 8, &mut word), Ok(()));
        assert_eq!(u64::from_ne_bytes(word), 0x0123_4567_89ab_cdef);
        assert_eq!(read_user(end - 4, &mut word), Err(Fault));
        assert_eq!(read_user(end, &mut word), Err(Fault));
        assert_eq!(read_kernel(end - 8, &mut word), Err(Fault));
    }

    #[test]
    fn a_short_read_of_user_memory_is_whole_or_nothing() {
        let address = user_page(0x0123_4567_89ab_cdef);
        assert!(address != 0);
        let end = address + PAGE;
        let mut word = [0xff; 8];
        assert_eq!(read_user_short(end - 4, &mut word), Err(Fault));
        let on_stack = word.as_ptr().addr();
        assert_eq!(read_user_short(on_stack, &mut word), Err(Fault));
        assert_eq!(word, [0xff; 8]);
        assert_eq!(read_user_short(end - 8, &mut word), Ok(()));
        assert_eq!(u64::from_ne_bytes(word), 0x0123_4567_89ab_cdef);
    }

    #[test]
    fn kernel_memory_is_not_the_users() -> Result {
        let word = KBox::new(1u64, GFP_KERNEL)?;
        let page = page_that_ends_with(b"")?;
        let mut bytes = [0; 8];
        for address in [core::ptr::from_ref(&*word).addr(), end_of(&page) - 8] {
            let read = [
                read_kernel(address, &mut [0; 8]),
                read_user(address, &mut bytes),
            ];
            assert_eq!(read, [Ok(()), Err(Fault)]);
        }
        assert_eq!(bytes, [0; 8]);
        Ok(())
    }

    /// Memory, for a program that needs nothing else.
    struct Memory;

    impl fetch::Context for Memory {
        fn register(&self, _: Register) -> u64 {
            0
        }

        fn stack(&self, _: u16) -> u64 {
            0
        }

        fn comm(&self) -> u64 {
            0
        }

        fn current(&self) -> u64 {
            0
        }

        fn pid(&self) -> u64 {
            0
        }

        fn caller(&self) -> u64 {
            0
        }

        fn this_cpu(&self, address: u64) -> u64 {
            address
        }

        fn symbol(&self, _: u64, _: &mut [u8]) -> usize {
            0
        }

        fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), fetch::Fault> {
            match space {
                Space::Kernel => read_kernel(address as usize, to),
                Space::User => read_user(address as usize, to),
            }
            .map_err(|Fault| fetch::Fault)
        }
    }

    struct NoSymbols;

    impl fetch::Resolver for NoSymbols {
        type Error = Infallible;

        fn symbol(&mut self, _: &str) -> Result<u64, Infallible> {
            Ok(0)
        }

        fn text(&mut self, _: &str) -> Result<u64, Infallible> {
            Ok(0)
        }

        fn entry_index(&mut self, _: fetch::EntryArgument) -> Result<u8, Infallible> {
            Ok(0)
        }
    }

    /// The number of bytes of the string at `address` that fit into `room`, including its NUL.
    fn string(space: Space, address: usize, room: &mut [u8; 24]) -> Result<usize> {
        let mut steps = Steps::new();
        steps
            .push(Step::Deref(Deref { space, offset: 0 }))
            .map_err(|_| EINVAL)?;
        let argument = Argument {
            name: Name::Given("string"),
            fetch: Fetch {
                base: Base::Immediate(address as u64),
                steps,
            },
            ty: FetchType::String(space),
            count: None,
        };
        let mut layout = fetch::Layout::new();
        layout.add(&argument).map_err(|_| EINVAL)?;
        let Ok(program) = fetch::compile(&argument, &mut NoSymbols);
        // The word with the place and the length of the string.
        let mut record = [0; 28];
        fetch::record(&[program], layout.bytes(), 0, &Memory, &mut record);
        let (location, bytes) = record.split_first_chunk::<4>().ok_or(EINVAL)?;
        room.copy_from_slice(bytes);
        let location = u32::from_ne_bytes(*location);
        if location & 0xffff != 4 {
            return Err(EINVAL);
        }
        Ok((location >> 16) as usize)
    }

    #[test]
    fn a_string_ends_with_its_nul() -> Result {
        let mut room = [0xff; 24];
        // The string ends at the last byte of the memory, and then some bytes before it.
        for behind in [&b""[..], b"more"] {
            let mut text = KVec::new();
            text.extend_from_slice(b"text\0", GFP_KERNEL)?;
            text.extend_from_slice(behind, GFP_KERNEL)?;
            let page = page_that_ends_with(&text)?;
            let len = string(Space::Kernel, end_of(&page) - text.len(), &mut room)?;
            assert_eq!(len, 5);
            assert!(room.starts_with(b"text\0"));
            let empty = string(Space::Kernel, end_of(&page) - text.len() + 4, &mut room)?;
            assert_eq!(empty, 1);
        }
        Ok(())
    }

    #[test]
    fn a_string_that_does_not_fit_is_cut() -> Result {
        let page = page_that_ends_with(b"0123456789012345678901234567890123456789\0")?;
        let mut room = [0xff; 24];
        let len = string(Space::Kernel, end_of(&page) - 41, &mut room)?;
        assert_eq!(len, 24);
        assert_eq!(room, *b"01234567890123456789012\0");
        Ok(())
    }

    #[test]
    fn a_string_that_cannot_be_read_is_none() -> Result {
        let page = page_that_ends_with(b"abc")?;
        let mut room = [0; 24];
        let without_nul = string(Space::Kernel, end_of(&page) - 3, &mut room)?;
        let kernel_as_user = string(Space::User, end_of(&page) - 3, &mut room)?;
        let mut nowhere = [1; 3];
        for (len, address) in nowhere.iter_mut().zip(NOWHERE) {
            *len = string(Space::Kernel, address, &mut room)?;
        }
        assert_eq!([without_nul, kernel_as_user], [0; 2]);
        assert_eq!(nowhere, [0; 3]);
        Ok(())
    }

    #[test]
    fn a_string_is_the_users_or_the_kernels() -> Result {
        let address = user_page(u64::from_ne_bytes(*b"a user\0."));
        assert!(address != 0);
        let start = address + PAGE - 8;
        let mut room = [0xff; 24];
        let as_user = string(Space::User, start, &mut room)?;
        assert_eq!(as_user, 7);
        assert!(room.starts_with(b"a user\0"));
        let as_kernel = string(Space::Kernel, start, &mut room)?;
        assert_eq!(as_kernel, 0);
        Ok(())
    }

    #[test]
    fn pointers_read_what_they_point_to() -> Result {
        let place = KBox::new([1u32, 2], GFP_KERNEL)?;
        let kernel = KernelPtr::<[u32; 2]>::new((&raw const *place).addr());
        let pointer = KBox::new(kernel.addr(), GFP_KERNEL)?;
        let pointer = KernelPtr::<KernelPtr<[u32; 2]>>::new((&raw const *pointer).addr());
        assert_eq!(kernel.read(), Ok([1, 2]));
        assert_eq!(kernel.at::<u32>(4).read(), Ok(2));
        assert_eq!(pointer.read().and_then(KernelPtr::read), Ok([1, 2]));
        // This memory does not belong to a process.
        assert_eq!(UserPtr::<u32>::new(kernel.addr()).read(), Err(Fault));
        for address in NOWHERE {
            assert_eq!(KernelPtr::<u64>::new(address).read(), Err(Fault));
            assert_eq!(UserPtr::<u64>::new(address).read(), Err(Fault));
        }
        assert!(KernelPtr::<u8>::new(0).is_null() && !kernel.is_null());
        Ok(())
    }
}
