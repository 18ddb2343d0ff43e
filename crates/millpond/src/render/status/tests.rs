use super::*;

/// The part of `zpool status` from `config:` on, but for groups that only the pool's own object
/// set knows, and with the paths of today.
fn printed(golden: &golden::GoldenPool) -> Vec<String> {
    let lines = golden.lines("status.txt").into_iter();
    lines
        .skip_while(|line| line != "config:")
        .filter(|line| !line.starts_with("\tspares") && !line.contains("AVAIL"))
        .map(|line| {
            line.split_whitespace()
                .map(base_name)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[test]
fn golden_pools_found_by_their_labels_show_the_tree_that_openzfs_shows() {
    for golden in golden::all_pools() {
        // Labels do not know which vdevs are for metadata or dedup tables, nor which were removed.
        let beyond_labels = ["gclasses", "gremoved"];
        if golden.lines("status.txt").is_empty()
            || beyond_labels.contains(&golden.pool_name().as_str())
        {
            continue;
        }
        let pools = control::discover(&golden.images()).unwrap();
        let name = golden.pool_name();
        let mut candidates = pools.into_iter().map(|found| found.candidate);
        let found = candidates.find(|found| found.name == name).expect(&name);
        let pool = PoolStatus {
            state: found.state,
            root_state: found.state,
            vdevs: found.vdevs,
            ..PoolStatus::healthy(&name, found.guid)
        };
        let text = status(&pool, StatusOptions::default());
        let shown: Vec<String> = text
            .lines()
            .skip_while(|line| *line != "config:")
            .map(|line| {
                line.split_whitespace()
                    .map(base_name)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(shown, printed(&golden));
    }
}
