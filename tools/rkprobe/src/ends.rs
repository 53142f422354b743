// SPDX-License-Identifier: GPL-2.0

//! The ends of a time, of a life or of a reference: functions, or places in the source, each with the object there.

use crate::{
    context::Context,
    failure::Result,
    functions::{
        Functions,
        Method, //
    },
    objects, //
};

/// One end of an object's time, of its life or of a reference to it: where the object is then.
pub enum End<'a> {
    /// A function that receives or returns it, and the fetch argument that has it.
    Function(&'a str, String),
    /// The sites of a place in the source: what a probe takes, and the fetch argument.
    Sites(Vec<(String, String)>),
}

impl<'a> End<'a> {
    /// Finds the function or the place. `given` is the object, if the user says so. Otherwise the types say it: the
    /// return value of a function comes before its parameters, or after them with `is_last`.
    pub fn find(
        context: &Context,
        structure: &str,
        text: &'a str,
        given: Option<&str>,
        is_last: bool,
    ) -> Result<Self> {
        let (functions, tracefs) = (&context.functions, &context.tracefs);
        if let Some(sites) = functions.objects(tracefs, text, structure, given)? {
            let sites = sites.into_iter();
            let sites = sites.map(|(site, object)| (site.target, object));
            return Ok(Self::Sites(sites.collect()));
        }
        functions.check(text, Method::Any)?;
        let object = objects::choose(functions, structure, text, given, is_last)?;
        Ok(Self::Function(text, object))
    }

    /// Whether it is a place in the source.
    pub fn is_place(&self) -> bool {
        matches!(self, Self::Sites(_))
    }

    /// The module of the function or of the place. `None` for the kernel itself.
    pub fn module(&self, functions: &Functions) -> Option<String> {
        match self {
            Self::Function(function, _) => functions.module_of(function),
            // All sites of a place are in the same module.
            Self::Sites(sites) => {
                let (target, _) = sites.first()?;
                let (module, _) = target.split_once(':')?;
                Some(module.into())
            }
        }
    }

    /// Whether the function returns the object.
    pub fn is_returned(&self) -> bool {
        matches!(self, Self::Function(_, object) if object.contains("$retval"))
    }

    /// The commands to try for each probe of the event `GROUP/EVENT` at this end. `of_function` has the commands for a
    /// function, without arguments. `rest` is the end of the commands.
    pub fn commands(
        &self,
        group: &str,
        event: &str,
        of_function: impl FnOnce(&str) -> Vec<String>,
        rest: &str,
    ) -> Vec<Vec<String>> {
        match self {
            Self::Function(function, object) => {
                let commands = of_function(function).into_iter();
                let whole = commands.map(|command| format!("{command} object={object}{rest}"));
                vec![whole.collect()]
            }
            Self::Sites(sites) => {
                let sites = sites.iter();
                let command = |(target, object): &(String, String)| {
                    vec![format!("p:{group}/{event} {target} object={object}{rest}")]
                };
                sites.map(command).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::functions;

    use super::*;

    #[test]
    fn a_module_has_a_function_or_the_sites_of_a_place() {
        let function = |name| End::Function(name, "$arg1".into());
        let sites = |target: &str| End::Sites(vec![(target.into(), "%bx:x64".into())]);
        for (end, module, is_place) in [
            (function("vfs_read"), None, false),
            (function("mod_write"), Some("mod"), false),
            (function("m:f"), Some("m"), false),
            (sites("vfs_read+0x9"), None, true),
            (sites("m:f+0x9"), Some("m"), true),
        ] {
            assert_eq!(end.module(&functions()).as_deref(), module);
            assert_eq!(end.is_place(), is_place);
        }
    }
}
