// SPDX-License-Identifier: GPL-2.0

//! The names of errors.

use linux_errno::Error;

/// The errors that no system call returns. C: `include/linux/errno.h`.
#[rustfmt::skip]
const OF_THE_KERNEL: [&str; 20] = [
    "ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ENOIOCTLCMD", "ERESTART_RESTARTBLOCK",
    "EPROBE_DEFER", "EOPENSTALE", "ENOPARAM", "520", "EBADHANDLE", "ENOTSYNC", "EBADCOOKIE",
    "ENOTSUPP", "ETOOSMALL", "ESERVERFAULT", "EBADTYPE", "EJUKEBOX", "EIOCBQUEUED",
    "ERECALLCONFLICT", "ENOGRACE",
];

/// The highest number of an error. C: `MAX_ERRNO`.
const MAX: u32 = 4095;

/// The name of an error, or its number. `number` is positive.
pub fn name(number: u64) -> String {
    let of_the_kernel = number.checked_sub(512).map(|index| index as usize);
    if let Some(name) = of_the_kernel.and_then(|index| OF_THE_KERNEL.get(index)) {
        return name.to_string();
    }
    let error = u16::try_from(number).ok().and_then(Error::new);
    // Without a name, the text is `Error(NUMBER)`.
    let name = error.map(|error| format!("{error:?}"));
    name.filter(|name| !name.ends_with(')'))
        .unwrap_or_else(|| number.to_string())
}

/// The number of an error, from its name or its number.
pub fn number(text: &str) -> Result<u32, String> {
    let text = text.trim_start_matches('-');
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=MAX).contains(number));
    let named = || (1..=MAX).find(|number| name((*number).into()).eq_ignore_ascii_case(text));
    number.or_else(named).ok_or_else(|| {
        format!("{text} is no error: write a name such as ENOENT, or a number up to {MAX}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_errors_by_name() {
        for (text, expected) in [
            ("ENOENT", 2),
            ("enoent", 2),
            ("-22", 22),
            ("ERESTARTSYS", 512),
        ] {
            assert_eq!(number(text), Ok(expected));
        }
        for wrong in ["", "EVERY", "0", "4096"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_errors() {
        assert_eq!(name(2), "ENOENT");
        assert_eq!(name(110), "ETIMEDOUT");
        assert_eq!(name(512), "ERESTARTSYS");
        assert_eq!(name(519), "ENOPARAM");
        assert_eq!(name(524), "ENOTSUPP");
        assert_eq!(name(531), "ENOGRACE");
        assert_eq!(name(133), "EHWPOISON");
        for unnamed in [0, 41, 520, 532, 4095, u64::MAX] {
            assert_eq!(name(unnamed), unnamed.to_string());
        }
    }
}
