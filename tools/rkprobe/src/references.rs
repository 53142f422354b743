// SPDX-License-Identifier: GPL-2.0

//! Gets and puts of objects: which gets have no put?
//!
//! A put does not say which get it ends. The last get of the same task is the best guess, and then the oldest get.

use std::collections::HashMap;

/// A get without a put.
#[derive(Clone, Debug, PartialEq)]
pub struct Get {
    /// The function.
    pub function: String,
    pub comm: String,
    pub pid: String,
    /// The time, in ns.
    pub time: u64,
    /// The functions that led to it, the innermost first.
    pub stack: Vec<String>,
}

/// An object with its gets that have no put.
#[derive(Debug, Default)]
pub struct Object {
    pub gets: Vec<Get>,
    /// Whether a put of another task ended one of several gets at different places, so that perhaps another get has no
    /// put.
    pub is_guess: bool,
}

/// The objects, by their addresses.
#[derive(Debug)]
pub struct References {
    objects: HashMap<String, Object>,
    /// Whether only objects count whose birth was seen.
    only_born: bool,
}

impl References {
    /// With `only_born`, only objects count whose birth was seen.
    pub fn new(only_born: bool) -> Self {
        Self {
            objects: HashMap::new(),
            only_born,
        }
    }

    /// An object is born, with one reference. An earlier object at the same address has ended.
    pub fn birth(&mut self, address: &str, get: Get) {
        let object = Object {
            gets: vec![get],
            is_guess: false,
        };
        self.objects.insert(address.into(), object);
    }

    /// An object has ended.
    pub fn end(&mut self, address: &str) {
        self.objects.remove(address);
    }

    /// A get of an object.
    pub fn get(&mut self, address: &str, get: Get) {
        match self.only_born {
            true => {
                if let Some(object) = self.objects.get_mut(address) {
                    object.gets.push(get);
                }
            }
            false => {
                let object = self.objects.entry(address.into()).or_default();
                object.gets.push(get);
            }
        }
    }

    /// A put of an object by a task. A put whose get was not seen changes nothing.
    pub fn put(&mut self, address: &str, pid: &str) {
        let Some(object) = self.objects.get_mut(address) else {
            return;
        };
        let own = object.gets.iter().rposition(|get| get.pid == pid);
        if own.is_none() {
            let mut stacks = object.gets.iter().map(|get| &get.stack);
            let first = stacks.next();
            object.is_guess |= stacks.any(|stack| Some(stack) != first);
        }
        if !object.gets.is_empty() {
            object.gets.remove(own.unwrap_or(0));
        }
        // An object without a birth is forgotten, so that nothing is known of the next object at its address.
        if object.gets.is_empty() && !self.only_born {
            self.objects.remove(address);
        }
    }

    /// The objects that have gets without a put.
    pub fn held(&self) -> impl Iterator<Item = (&str, &Object)> {
        let all = self.objects.iter();
        all.filter(|(_, object)| !object.gets.is_empty())
            .map(|(address, object)| (&**address, object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(pid: &str, place: &str) -> Get {
        Get {
            function: "get".into(),
            comm: "a".into(),
            pid: pid.into(),
            time: 0,
            stack: vec![place.into()],
        }
    }

    fn places(references: &References) -> Vec<&str> {
        let mut places: Vec<&str> = references
            .held()
            .flat_map(|(_, object)| object.gets.iter().map(|get| &*get.stack[0]))
            .collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn a_put_ends_the_last_get_of_its_task() {
        let mut references = References::new(false);
        references.get("1", get("7", "a"));
        references.get("1", get("8", "b"));
        references.get("1", get("7", "c"));
        references.put("1", "7");
        assert_eq!(places(&references), ["a", "b"]);
        assert!(references.held().all(|(_, object)| !object.is_guess));
        references.put("1", "9");
        assert_eq!(places(&references), ["b"]);
        assert!(references.held().all(|(_, object)| object.is_guess));
        references.put("1", "8");
        references.put("1", "8");
        references.put("2", "8");
        assert_eq!(references.held().count(), 0);
        references.get("1", get("7", "d"));
        assert!(references.held().all(|(_, object)| !object.is_guess));
    }

    #[test]
    fn objects_begin_with_their_birth_if_it_is_known() {
        let mut references = References::new(true);
        references.get("1", get("7", "early"));
        references.birth("2", get("7", "birth"));
        references.get("2", get("8", "get"));
        assert_eq!(places(&references), ["birth", "get"]);
        references.put("2", "7");
        references.put("2", "8");
        references.get("2", get("8", "again"));
        assert_eq!(places(&references), ["again"]);
        references.end("2");
        assert_eq!(references.held().count(), 0);
    }
}
