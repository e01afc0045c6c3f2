//! Control flow: where the two sides of a branch meet again.

/// For each step, the steps that may follow; an empty list ends the thread.
pub type Successors = Vec<Vec<usize>>;

/// The immediate post-dominator of every step: the first step that every path from it must reach.
/// `steps` (one past the end) stands for the end of the thread.
pub fn meeting_points(successors: &Successors) -> Vec<usize> {
    let steps = successors.len();
    let exit = steps;
    let mut predecessors = vec![Vec::new(); steps + 1];
    for (step, following) in successors.iter().enumerate() {
        if following.is_empty() {
            predecessors[exit].push(step);
        }
        for &next in following {
            predecessors[next].push(step);
        }
    }
    // Order of the reversed graph, from the exit.
    let mut rank = vec![usize::MAX; steps + 1];
    let mut order = Vec::with_capacity(steps + 1);
    let mut stack = vec![(exit, 0)];
    let mut seen = vec![false; steps + 1];
    seen[exit] = true;
    while let Some((node, next)) = stack.pop() {
        if let Some(&predecessor) = predecessors[node].get(next) {
            stack.push((node, next + 1));
            if !seen[predecessor] {
                seen[predecessor] = true;
                stack.push((predecessor, 0));
            }
        } else {
            rank[node] = order.len();
            order.push(node);
        }
    }
    // Iterate to the fixed point, nearest to the exit first (Cooper, Harvey and Kennedy).
    let mut dominator = vec![usize::MAX; steps + 1];
    dominator[exit] = exit;
    let mut changed = true;
    while changed {
        changed = false;
        for &node in order.iter().rev().filter(|&&node| node != exit) {
            let ends = [exit];
            let following: &[usize] = if successors[node].is_empty() { &ends } else { &successors[node] };
            let mut best = usize::MAX;
            for &next in following {
                if dominator[next] == usize::MAX {
                    continue;
                }
                best = if best == usize::MAX { next } else { intersect(best, next, &dominator, &rank) };
            }
            if dominator[node] != best {
                dominator[node] = best;
                changed = true;
            }
        }
    }
    // A step that never reaches the exit (an endless loop) meets nowhere.
    dominator.iter().take(steps).map(|&node| if node == usize::MAX { exit } else { node }).collect()
}

fn intersect(mut left: usize, mut right: usize, dominator: &[usize], rank: &[usize]) -> usize {
    while left != right {
        while rank[left] < rank[right] {
            left = dominator[left];
        }
        while rank[right] < rank[left] {
            right = dominator[right];
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::meeting_points;

    #[test]
    fn a_diamond_meets_at_its_lower_corner() {
        // 0 → {1, 2} → 3 → end
        assert_eq!(meeting_points(&vec![vec![1, 2], vec![3], vec![3], vec![]]), [3, 3, 3, 4]);
    }

    #[test]
    fn a_loop_meets_after_itself() {
        // 0 → 1 → {1, 2}, 2 → end
        assert_eq!(meeting_points(&vec![vec![1], vec![1, 2], vec![]]), [1, 2, 3]);
    }

    #[test]
    fn sides_that_end_apart_meet_at_the_end_of_the_thread() {
        assert_eq!(meeting_points(&vec![vec![1, 2], vec![], vec![]]), [3, 3, 3]);
    }

    #[test]
    fn an_endless_loop_meets_nowhere() {
        assert_eq!(meeting_points(&vec![vec![0]]), [1]);
    }
}
