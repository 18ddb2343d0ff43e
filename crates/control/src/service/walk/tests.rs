use super::*;
use admin::{Response, Setting, Value, name};
use dsl::property::{self, Figure};
use std::collections::BTreeMap;

/// A pool that consists of the lines of a golden list.
struct Listed {
    rows: BTreeMap<String, Row>,
    root: String,
}

#[derive(Clone)]
struct Row {
    name: String,
    kind: Types,
    txg: u64,
    used: Option<u64>,
}

impl PropertySource for Row {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> Types {
        self.kind
    }
    fn head_kind(&self) -> Types {
        Types::FILESYSTEM
    }
    fn created_txg(&self) -> u64 {
        self.txg
    }
    fn figure(&self, figure: Figure) -> Result<Option<Value>, Failure> {
        Ok(if figure == Figure::Used {
            self.used.map(Value::Number)
        } else if figure == Figure::CreationTxg {
            Some(Value::Number(self.txg))
        } else {
            None
        })
    }
    fn computed(&self, _name: &str) -> Result<Option<Value>, Failure> {
        Ok(None)
    }
    fn stored(&self, _row: &'static property::Row) -> Result<Option<Setting>, Failure> {
        Ok(None)
    }
    fn user_property(&self, _name: &str) -> Result<Option<Setting>, Failure> {
        Ok(None)
    }
    fn user_properties(&self) -> Result<Vec<(String, Setting)>, Failure> {
        Ok(Vec::new())
    }
}

impl Listed {
    fn new(lines: &[String]) -> Self {
        let mut rows = BTreeMap::new();
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let [name, kind, used, .., txg, _ratio, _origin] = fields.as_slice() else {
                continue;
            };
            let row = Row {
                name: (*name).to_owned(),
                kind: Types::parse(kind).unwrap(),
                txg: txg.parse().unwrap(),
                used: used.parse().ok(),
            };
            rows.insert(row.name.clone(), row);
        }
        let root = name::pool_of(rows.keys().next().unwrap()).to_owned();
        Self { rows, root }
    }

    fn of_kind(&self, dataset: &str, kind: Types) -> Vec<&Row> {
        let mut found: Vec<&Row> = self
            .rows
            .values()
            .filter(|row| row.kind == kind && name::dataset_of(&row.name) == dataset)
            .collect();
        found.sort_by_key(|row| row.txg);
        found
    }
}

impl DatasetIndex for Listed {
    fn root(&self) -> String {
        self.root.clone()
    }
    fn stamp(&self) -> u64 {
        0
    }
    fn settle(&self) {}
    fn find(&self, name: &str) -> Result<Option<Box<dyn PropertySource + '_>>, Failure> {
        Ok(self
            .rows
            .get(name)
            .map(|row| Box::new(row.clone()) as Box<dyn PropertySource>))
    }
    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure> {
        let below = |row: &&Row| {
            row.kind.intersects(Types::HEADS) && name::parent_of(&row.name) == Some(dataset)
        };
        Ok(self
            .rows
            .values()
            .filter(below)
            .map(|row| row.name.clone())
            .collect())
    }
    fn snapshots(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn PropertySource) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.of_kind(dataset, Types::SNAPSHOT)
            .into_iter()
            .try_for_each(|row| visit(row))
    }
    fn bookmarks(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn PropertySource) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.of_kind(dataset, Types::BOOKMARK)
            .into_iter()
            .try_for_each(|row| visit(row))
    }
}

fn ask(pool: &Listed, query: &DatasetQuery) -> (Vec<DatasetRow>, Vec<Response>) {
    let mut rows = Vec::new();
    let mut other = Vec::new();
    answer(pool, query, &mut |response| {
        match response {
            Response::Datasets(page) => {
                assert!(page.len() <= PAGE);
                rows.extend(page);
            }
            response => other.push(response),
        }
        Ok(())
    })
    .unwrap();
    (rows, other)
}

fn query(roots: &[&str], depth: Option<u32>, types: Types) -> DatasetQuery {
    DatasetQuery {
        roots: roots.iter().map(|root| (*root).to_owned()).collect(),
        depth,
        types,
        properties: Selection::Names(vec!["used".into()]),
    }
}

#[test]
fn golden_lists_in_the_order_printed() {
    for golden in golden::all_pools() {
        let lines = golden.lines("list.tsv");
        if lines
            .first()
            .is_none_or(|line| line.split('\t').count() != 9)
        {
            continue;
        }
        let pool = Listed::new(&lines);
        let (rows, other) = ask(&pool, &query(&[], None, Types::ALL));
        assert_eq!(other, [Response::Done]);
        let walked: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let printed: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split('\t').next())
            .collect();
        let mut sorted = rows.clone();
        admin::sort_datasets(&mut sorted, &[]);
        let sorted: Vec<&str> = sorted.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(sorted, printed);
        assert_eq!(walked.len(), printed.len());
    }
}

fn small() -> Listed {
    let line = |name: &str, kind: &str, txg: u64| {
        format!("{name}\t{kind}\t{txg}\t-\t-\t-\t{txg}\t1.00\t-")
    };
    Listed::new(&[
        line("p", "filesystem", 1),
        line("p@s", "snapshot", 5),
        line("p/a", "filesystem", 2),
        line("p/a@t", "snapshot", 6),
        line("p/a/b", "volume", 3),
        line("p/a#m", "bookmark", 6),
    ])
}

fn names(found: &(Vec<DatasetRow>, Vec<Response>)) -> String {
    found
        .0
        .iter()
        .map(|row| row.name.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn depths_and_kinds() {
    let pool = small();
    let found = |roots: &[&str], depth, types| names(&ask(&pool, &query(roots, depth, types)));
    assert_eq!(found(&[], None, Types::HEADS), "p p/a p/a/b");
    assert_eq!(found(&["p"], Some(0), Types::ALL), "p");
    assert_eq!(found(&["p"], Some(1), Types::ALL), "p p@s p/a");
    assert_eq!(found(&["p"], Some(1), Types::SNAPSHOT), "p@s");
    assert_eq!(found(&["p"], None, Types::VOLUME), "p/a/b");
    assert_eq!(found(&["p/a"], None, Types::ALL), "p/a p/a@t p/a#m p/a/b");
    assert_eq!(
        found(&["p/a@t", "p/a#m"], Some(0), Types::ALL),
        "p/a@t p/a#m"
    );
}

#[test]
fn missing_roots_are_reported_and_the_rest_is_answered() {
    let pool = small();
    let (rows, other) = ask(&pool, &query(&["p/x", "p"], Some(0), Types::ALL));
    assert_eq!(rows.len(), 1);
    let Response::Warning(failure) = &other[0] else {
        panic!("{other:?}")
    };
    assert_eq!(
        failure.to_string(),
        "cannot open 'p/x': dataset does not exist"
    );
    assert_eq!(other[1], Response::Done);
}

#[test]
fn what_is_asked_for_twice_is_answered_once_in_the_order_of_asking() {
    assert_eq!(distinct(&["b", "a", "b", "c", "a"]), ["b", "a", "c"]);
    assert!(distinct::<u8>(&[]).is_empty());
}
