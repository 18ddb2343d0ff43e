//! The JSON forms of lists, properties and status (`-j`).

use admin::rows::dataset::NAME;
use admin::rows::pool::HEALTH;
use admin::{DatasetRow, PoolReport, PropertyName, Setting, Source, Types};
use serde_json::{Map, Value as JsonValue, json};

use super::list::cell;

mod health;

/// How JSON is written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JsonOptions {
    /// Exact numbers (`-p`).
    pub(crate) exact: bool,
    /// Numbers as numbers (`--json-int`).
    pub(crate) integers: bool,
    /// Pools under their guids (`--json-pool-key-guid`).
    pub(crate) guid_keys: bool,
    /// All vdevs in one list (`--json-flat-vdevs`).
    pub(crate) flat_vdevs: bool,
    /// Of leaves the slow I/Os (`-s`).
    pub(crate) slow: bool,
    /// Of leaves how they were initialized (`-i`).
    pub(crate) initialize: bool,
    /// Of leaves how they were trimmed (`-t`).
    pub(crate) trim: bool,
    /// The dedup tables (`-D`).
    pub(crate) dedup: bool,
}

/// A document under construction.
#[derive(Debug)]
pub(crate) struct Json {
    root: Map<String, JsonValue>,
    options: JsonOptions,
}

impl Json {
    /// A document of the given command.
    #[must_use]
    pub(crate) fn new(command: &str, options: JsonOptions) -> Self {
        let mut root = Map::new();
        root.insert(
            "output_version".to_owned(),
            json!({"command": command, "vers_major": 0, "vers_minor": 1}),
        );
        Self { root, options }
    }

    /// Adds datasets with the given properties.
    pub(crate) fn datasets(&mut self, rows: &[DatasetRow], columns: &[PropertyName]) {
        let mut all = Map::new();
        for row in rows {
            let mut object = self.dataset_head(row);
            let mut properties = Map::new();
            for column in columns.iter().filter(|column| !NAME.is(column.name())) {
                let source = row
                    .get(column.name())
                    .map_or(&Source::None, |set| &set.source);
                let text = cell(row, column, self.options.exact);
                properties.insert(column.name().to_owned(), self.property(text, source));
            }
            object.insert("properties".to_owned(), properties.into());
            all.insert(row.name.clone(), object.into());
        }
        self.root.insert("datasets".to_owned(), all.into());
    }

    /// Adds datasets each with its own properties.
    pub(crate) fn dataset_properties(
        &mut self,
        rows: &[(DatasetRow, Vec<(PropertyName, Setting)>)],
    ) {
        let mut all = Map::new();
        for (row, settings) in rows {
            let mut object = self.dataset_head(row);
            object.insert("properties".to_owned(), self.properties(settings));
            all.insert(row.name.clone(), object.into());
        }
        self.root.insert("datasets".to_owned(), all.into());
    }

    /// Adds pools with their properties.
    pub(crate) fn pools(&mut self, pools: &[(PoolReport, Vec<(PropertyName, Setting)>)]) {
        let mut all = Map::new();
        for (pool, settings) in pools {
            let state = settings
                .iter()
                .find(|(name, _)| HEALTH.is(name.name()))
                .map_or_else(
                    || "ONLINE".to_owned(),
                    |(name, set)| name.format(&set.value, true),
                );
            let mut object = self.pool_head(&pool.name, pool.guid, pool.txg, &state, true);
            object.insert("properties".to_owned(), self.properties(settings));
            all.insert(self.pool_key(&pool.name, pool.guid), object.into());
        }
        self.root.insert("pools".to_owned(), all.into());
    }

    /// Adds vdevs with their properties.
    pub(crate) fn vdevs(&mut self, rows: &[DatasetRow]) {
        let mut all = Map::new();
        for row in rows {
            let settings = row.properties.iter().filter_map(|(name, setting)| {
                let name = admin::find_vdev_property(name)?;
                Some((name, setting.clone()))
            });
            let settings: Vec<_> = settings.collect();
            let object = json!({
                "name": row.name,
                "type": "VDEV",
                "properties": self.properties(&settings),
            });
            all.insert(row.name.clone(), object);
        }
        self.root.insert("vdevs".to_owned(), all.into());
    }

    /// Adds any other member.
    pub(crate) fn member(&mut self, name: &str, value: JsonValue) {
        self.root.insert(name.to_owned(), value);
    }

    /// The text of the document.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        serde_json::to_string_pretty(&self.root).unwrap_or_default() + "\n"
    }

    fn dataset_head(&self, row: &DatasetRow) -> Map<String, JsonValue> {
        let mut object = Map::new();
        let kind = match row.kind {
            Types::VOLUME => "VOLUME",
            Types::SNAPSHOT => "SNAPSHOT",
            Types::BOOKMARK => "BOOKMARK",
            _ => "FILESYSTEM",
        };
        object.insert("name".to_owned(), json!(row.name));
        object.insert("type".to_owned(), json!(kind));
        object.insert("pool".to_owned(), json!(admin::name::pool_of(&row.name)));
        object.insert("createtxg".to_owned(), self.number(row.created_txg));
        if let Some((dataset, snapshot)) = row.name.split_once('@') {
            object.insert("dataset".to_owned(), json!(dataset));
            object.insert("snapshot_name".to_owned(), json!(snapshot));
        }
        object
    }

    fn pool_key(&self, name: &str, guid: u64) -> String {
        if self.options.guid_keys {
            guid.to_string()
        } else {
            name.to_owned()
        }
    }

    fn pool_head(
        &self,
        name: &str,
        guid: u64,
        txg: u64,
        state: &str,
        typed: bool,
    ) -> Map<String, JsonValue> {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(name));
        if typed {
            object.insert("type".to_owned(), json!("POOL"));
        }
        object.insert("state".to_owned(), json!(state));
        object.insert("pool_guid".to_owned(), self.number(guid));
        object.insert("txg".to_owned(), self.number(txg));
        object.insert("spa_version".to_owned(), self.number(5000));
        object.insert("zpl_version".to_owned(), self.number(5));
        object
    }

    fn properties(&self, settings: &[(PropertyName, Setting)]) -> JsonValue {
        let mut properties = Map::new();
        for (name, setting) in settings {
            let text = name.format(&setting.value, self.options.exact);
            properties.insert(name.name().to_owned(), self.property(text, &setting.source));
        }
        properties.into()
    }

    fn property(&self, text: String, source: &Source) -> JsonValue {
        let (kind, data) = match source {
            Source::Inherited(from) => ("INHERITED", from.as_str()),
            Source::None
            | Source::Default
            | Source::Local
            | Source::Temporary
            | Source::Received => (source.word(), "-"),
        };
        let value = match text.parse::<u64>() {
            Ok(number) if self.options.integers => json!(number),
            _ => json!(text),
        };
        json!({"value": value, "source": {"type": kind.to_uppercase(), "data": data}})
    }

    fn number(&self, number: u64) -> JsonValue {
        if self.options.integers {
            json!(number)
        } else {
            json!(number.to_string())
        }
    }
}
