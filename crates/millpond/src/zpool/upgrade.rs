//! `zpool upgrade`: which features there are, which are not enabled, and enabling them.

use admin::changes::Upgrade;
use admin::rows::pool::{COMPATIBILITY, VERSION};
use admin::{Change, PropertyName, Selection, Value};

use format::uberblock::{VERSION_FEATURES, version_is_known};

use crate::daemons::{change, each, ended, report, running};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, print, usage};

/// `zpool upgrade`.
pub(super) const COMMAND: Command = Command {
    name: "upgrade",
    aliases: &[],
    summary: "Enable features, or list those that could be enabled.",
    forms: &["", "-v", "[-V version] -a | pool ..."],
    flags: &[
        switch("a", "all pools"),
        switch("v", "list the features supported"),
        option("V", "version", "not beyond this version"),
    ],
    operands: Operands::ANY,
    run: upgrade,
};

fn upgrade(call: &Invocation) -> Outcome {
    if call.has("v") {
        return print(&crate::render::features_text());
    }
    if !call.has("a") && call.operands().is_empty() {
        return overview();
    }
    let version = match call.value("V") {
        None => VERSION_FEATURES,
        Some(text) => text
            .parse()
            .ok()
            .filter(|version| version_is_known(*version))
            .ok_or_else(|| usage(format!("invalid version '{text}'")))?,
    };
    print("This system supports ZFS pool feature flags.\n\n")?;
    each(call.operands(), &mut |mut connection| {
        let request = Change::Upgrade(Upgrade { version });
        change(&mut connection, request, &call.line)
    })
}

fn overview() -> Outcome {
    let mut out = "This system supports ZFS pool feature flags.\n\n".to_owned();
    let mut old = String::new();
    let mut lacking = String::new();
    let (connections, complete) = running()?;
    for mut connection in connections {
        let report = report(&mut connection, Selection::All)?;
        match report
            .get(VERSION.name)
            .map(|setting| setting.value.clone())
        {
            Some(Value::Number(version)) if version < VERSION_FEATURES => {
                old += &format!("{version:>2}   {}\n", report.name);
                continue;
            }
            _ => {}
        }
        let limit = match report.get(COMPATIBILITY.name).map(|setting| &setting.value) {
            Some(Value::Text(limit)) => control::upgraded_features(limit),
            _ => control::upgraded_features("off"),
        };
        let disabled: Vec<String> = report
            .properties
            .iter()
            .filter(|(_, setting)| setting.value == Value::Text("disabled".to_owned()))
            .filter_map(|(name, _)| admin::find_pool_property(name))
            .filter_map(|name| match name {
                PropertyName::Computed(name) => name.strip_prefix("feature@").map(str::to_owned),
                PropertyName::Native(_) | PropertyName::User(_) => None,
            })
            // Others would stay disabled: they cannot be maintained.
            .filter(|name| limit.contains(&name.as_str()))
            .collect();
        if !disabled.is_empty() {
            lacking += &format!("{}\n", report.name);
            for feature in disabled {
                lacking += &format!("      {feature}\n");
            }
        }
    }
    if old.is_empty() {
        out += "All pools are formatted using feature flags.\n\n";
    } else {
        out += "The following pools are formatted with legacy version numbers and can\nbe upgraded \
                to use feature flags.  After being upgraded, these pools\nwill no longer be \
                accessible by software that does not support feature\nflags.\n\nVER  \
                POOL\n---  ------------\n";
        out += &old;
        out += "\nUse 'zpool upgrade -v' for a list of available legacy versions.\n";
    }
    if lacking.is_empty() {
        out += "Every feature flags pool has all supported and requested features enabled.\n";
    } else {
        out += "Some supported features are not enabled on the following pools. Once a\nfeature is \
                enabled the pool may become incompatible with software\nthat does not support the \
                feature. See zpool-features(7) for details.\n\nPOOL  \
                FEATURE\n---------------\n";
        out += &lacking;
    }
    print(&out)?;
    ended(complete)
}
