use admin::name;

use super::*;

/// Heads, snapshots, and (snapshot, clone).
struct Tree {
    heads: Vec<&'static str>,
    snapshots: Vec<&'static str>,
    clones: Vec<(&'static str, &'static str)>,
}

impl Family for Tree {
    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure> {
        let below = self
            .heads
            .iter()
            .filter(|head| name::parent_of(head) == Some(dataset));
        Ok(below.map(ToString::to_string).collect())
    }
    fn snapshots(&self, dataset: &str) -> Result<Vec<String>, Failure> {
        let of = self
            .snapshots
            .iter()
            .filter(|snapshot| name::dataset_of(snapshot) == dataset);
        Ok(of.map(ToString::to_string).collect())
    }
    fn clones(&self, snapshot: &str) -> Result<Vec<String>, Failure> {
        let of = self.clones.iter().filter(|(origin, _)| *origin == snapshot);
        Ok(of.map(|(_, clone)| (*clone).to_owned()).collect())
    }
}

#[test]
fn clones_go_before_what_they_came_from() {
    let tree = Tree {
        heads: vec!["p", "p/a", "p/a/b", "p/c", "p/c/d"],
        snapshots: vec!["p/a@1", "p/a@2", "p/a/b@x", "p/c@3"],
        clones: vec![("p/a@2", "p/c")],
    };
    let mut plan = Plan::new(&tree);
    plan.head("p/a").unwrap();
    let steps = plan.steps();
    assert_eq!(
        names(&steps),
        [
            "p/a/b@x", "p/a/b", "p/a@1", "p/c/d", "p/c@3", "p/c", "p/a@2", "p/a"
        ]
    );
}

#[test]
fn snapshots_in_a_row_go_at_once() {
    let tree = Tree {
        heads: vec!["p"],
        snapshots: vec!["p@1", "p@2"],
        clones: vec![],
    };
    let mut plan = Plan::new(&tree);
    plan.snapshot("p@1").unwrap();
    plan.snapshot("p@2").unwrap();
    plan.snapshot("p@1").unwrap();
    assert_eq!(
        plan.steps(),
        [Step::Snapshots(vec!["p@1".into(), "p@2".into()])]
    );
}

#[test]
fn a_clone_below_its_own_origin_is_taken_once() {
    let tree = Tree {
        heads: vec!["p/a", "p/a/clone"],
        snapshots: vec!["p/a@1"],
        clones: vec![("p/a@1", "p/a/clone")],
    };
    let mut plan = Plan::new(&tree);
    plan.head("p/a").unwrap();
    assert_eq!(names(&plan.steps()), ["p/a/clone", "p/a@1", "p/a"]);
}

#[test]
fn of_a_pool_its_root_stays_unless_it_is_a_clone() {
    let mut tree = Tree {
        heads: vec!["p", "p/a"],
        snapshots: vec!["p@1", "p/a@2"],
        clones: vec![],
    };
    let all = |tree: &Tree| {
        let mut plan = Plan::new(tree);
        plan.pool("p").unwrap();
        let steps = plan.steps();
        names(&steps).join(" ")
    };
    assert_eq!(all(&tree), "p/a@2 p/a p@1");
    tree.clones = vec![("p/a@2", "p")];
    assert!(all(&tree).split(' ').any(|name| name == "p"));
}
