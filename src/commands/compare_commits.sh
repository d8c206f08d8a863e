#!/bin/sh
# `gpukern compare-commits` runs this with its options as arguments: variables of the environment would reach the command
# that prepares, and `make` would take them. $0 is gpukern, which has checked what it can.
set -eu

# Messages in files are not broken into lines.
columns=${COLUMNS:-}
unset COLUMNS

mistake() {
    echo "error: $1" >&2
    exit 2
}

# Results go to standard output, and how far it has come to standard error.
progress() { [ -n "$quiet" ] || echo "$1" >&2; }

# Everything is checked before the results of the last run are replaced.
base=$1 config=$2 prepare=$3 bench=$4 processes=$5 min_effect=$6 gate=$7 allow=$8 require_reference=$9
shift
repeated=$9
shift
quiet=$9
# Git's own message says what to do if the folder belongs to somebody else.
top=$(git rev-parse --show-toplevel) || mistake "run \`gpukern compare-commits\` in a git repository"
cd "$top"
if ! commit=$(git rev-parse --quiet --verify "$base^{commit}"); then
    if git rev-parse --quiet --verify "origin/$base^{commit}" > /dev/null; then
        mistake "there is no commit '$base' here, but there is origin/$base"
    elif [ "$(git rev-parse --is-shallow-repository)" = true ]; then
        depth=0
        [ "$base" != 'HEAD^1' ] || depth=2
        fetch="\`git fetch --unshallow\`"
        case $base in
            *[~^@:]*) ;;
            origin/*) fetch="$fetch, and a branch with \`git fetch origin ${base#origin/}:refs/remotes/$base\`" ;;
            *) fetch="$fetch, and a branch with \`git fetch origin $base:$base\`" ;;
        esac
        [ "$base" != 'HEAD^1' ] || fetch="\`git fetch --deepen 1\`"
        mistake "there is no commit '$base' in this shallow clone; set \`fetch-depth: $depth\` of actions/checkout, or \
fetch it: $fetch"
    elif [ "$base" = HEAD^1 ]; then
        mistake "HEAD has no parent; name the commit to compare with"
    else
        mistake "there is no commit '$base'; \`git branch --all\` lists the branches, and \`git fetch\` gets new ones"
    fi
fi
# Where both have moved on, what only BASE changed is no change of this branch.
left=
if merge_base=$(git merge-base HEAD "$commit" 2> /dev/null) && [ "$merge_base" != "$commit" ] &&
    [ "$merge_base" != "$(git rev-parse HEAD)" ]; then
    commit=$merge_base
    left=", where this branch left $base"
fi
# Not every system sets CI.
in_ci=${CI:-${JENKINS_URL:-${TF_BUILD:-${TEAMCITY_VERSION:-}}}}
# With PREPARE, the configuration may be among what is made.
if [ ! -f "$config" ] && [ -z "$prepare" ] && ! git cat-file -e "$commit:$config" 2> /dev/null; then
    mistake "there is no file '$config' in $top; list your kernels in it (\`gpukern help ci\`), or name another with --config"
fi

# A pull request is checked out as a merge that nobody has seen; its second parent is the commit that was pushed.
head=$(git rev-parse --short HEAD)
name=$head
if [ "$(git rev-parse --quiet --verify 'HEAD^1')" = "$commit" ] && merged=$(git rev-parse --quiet --verify 'HEAD^2'); then
    head=$(git rev-parse --short "$merged")
    name="$head, merged as $name"
fi
checkout="git checkout $head && "
# HEAD^1 is another commit elsewhere, and a branch has moved on when a comment is read.
named=$(git rev-parse --short "$commit")
results=gpukern-results
if [ -n "$(git status --porcelain --untracked-files=no -- . ":!$results")" ]; then
    name="$name, with uncommitted changes"
    checkout=
elif [ -n "$(git status --porcelain -- . ":!$results")" ]; then
    name="$name, with untracked files"
    checkout=
fi
sides="Candidate: $name. Baseline: $(git rev-parse --short "$commit")$left."

# Readers of a comment repeat it at their desk, which lacks what is not committed.
where='In a clone'
[ -n "$checkout" ] || where='In this folder'
origin="$sides $where, \`${checkout}gpukern compare-commits $named$repeated\` repeats this."

candidate=$PWD
scratch=$(mktemp -d)
if [ -d "$results" ]; then mv "$results" "$scratch/last"; fi
mkdir "$results" "$scratch/sides"
echo '*' > "$results/.gitignore"
baseline=$scratch/baseline
child=
changed=
gate_changed=
renamed=
own_check=
by_own_check='Not judged by a check of the baseline, as new, or as renamed with other code and another check:'
candidate_status=0
# Processes of each side, all of which are compared.
process=0
# shellcheck disable=SC2317 # a trap calls it
clean() {
    git worktree remove --force "$baseline" 2> /dev/null || true
    rm -rf "$scratch"
}
# A second signal ends the script, but not one at once: `timeout` signals the group, and gpukern passes its own signal on.
# shellcheck disable=SC2317
interrupted() {
    soon=$(($(date +%s) + 1))
    # shellcheck disable=SC2064 # the time and the code of the first signal
    trap "[ \"\$(date +%s)\" -le $soon ] || exit $1" HUP INT TERM
    if [ -n "$child" ]; then
        kill "$child" 2> /dev/null || true
        # A signal ends `wait`, too.
        while kill -0 "$child" 2> /dev/null; do wait "$child" || true; done
    fi
    keep_records
    if [ "$process" = 0 ]; then
        : > "$scratch/messages"
        end "Nothing was compared: a signal ended the measurement." "$scratch/messages" "$1"
    fi
    compare_to_files
    finish "A signal ended the measurement; this is what it had found." "$1"
}
trap clean EXIT
trap 'exit 141' PIPE
trap 'interrupted 129' HUP
trap 'interrupted 130' INT
trap 'interrupted 143' TERM

# Runs a command in the folder $2, and appends its output to the file $1. Its messages are in $scratch/messages. It runs in
# the background, because a shell that waits for a command in the foreground handles signals only after it.
run() {
    output=$1 folder=$2
    shift 2
    : > "$scratch/messages"
    (cd "$folder" && exec "$@") >> "$output" 2>> "$scratch/messages" &
    child=$!
    code=0
    wait "$child" || code=$?
    child=
    return "$code"
}

# Writes text for XML.
escaped() {
    tr -d '\000-\010\013\014\016-\037' | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/"/\&quot;/g'
}

# Makes sure that no system shows green tests: adds a test with the error $1, and the messages in the file $2, to JUnit's file
# unless that has failures of its own.
fail_junit() {
    junit=$results/junit.xml
    if grep -q -s -e '<failure' -e '<error' "$junit"; then return; fi
    # Its own tests are kept: only the end of the document is written anew.
    if [ -s "$junit" ]; then
        sed '/^<\/testsuites>$/d; s/^<testsuites .*/<testsuites name="gpukern">/' "$junit"
    else
        echo '<?xml version="1.0" encoding="UTF-8"?>'
        echo '<testsuites name="gpukern">'
    fi > "$scratch/junit"
    {
        cat "$scratch/junit"
        echo '  <testsuite name="compare-commits" tests="1" failures="0" errors="1" skipped="0">'
        echo "    <testcase name=\"$(echo "$config" | escaped)\" classname=\"compare-commits\">"
        echo "      <error type=\"failed\" message=\"$(echo "$1" | escaped)\">$(escaped < "$2")</error>"
        echo '    </testcase>'
        echo '  </testsuite>'
        echo '</testsuites>'
    } > "$junit"
}

# Names the candidate's cases without a reference, if each must have one.
name_unverified() {
    if [ -z "$require_reference" ] || [ ! -s "$results/candidate.json" ]; then return; fi
    "$0" export "$results/candidate.json" --to jsonl | grep '"status":"unverified"' \
        | sed 's/^{"name":"\([^"]*\)".*/\1/' > "$scratch/unverified" || true
    more=$(($(wc -l < "$scratch/unverified") - 3))
    names=$(head -n 3 "$scratch/unverified" | paste -s -d '|' - | sed 's/|/, /g')
    if [ "$more" -gt 0 ]; then names="$names and $more more"; fi
    if [ -n "$names" ]; then echo "Nothing checks $names (--require-reference); \`gpukern help checks\` shows how"; fi
}

# Ends without a comparison, with the exit code $3: $1 says why, and the file $2 has messages. What is known of the candidate
# is in the results. At a desk, a mistake keeps the results of the last run, where nobody takes them for those of this one.
end() {
    if [ "$3" = 2 ] && [ ! -s "$results/candidate.json" ] && [ -d "$scratch/last" ] && [ -z "$in_ci" ]; then
        rm -rf "$scratch/last/earlier"
        mv "$scratch/last" "$results/earlier"
        echo "The results of the last run are now in $results/earlier."
    fi
    case $candidate_status in
        0 | 4) headline=$1 ;;
        1) headline="$1 The candidate has wrong answers." ;;
        *) headline="$1 The candidate has failures." ;;
    esac
    code=$3
    unverified=$(name_unverified)
    if [ -n "$unverified" ]; then
        headline="$headline $unverified"
        case $code in 0 | 4) code=1 ;; esac
    fi
    echo "$headline"
    cat "$2" >&2
    record=$results/candidate.json
    {
        echo "**$headline**"
        echo
        # Indented text is shown as it is.
        if [ -s "$2" ]; then
            sed 's/^/    /' "$2"
            echo
        fi
        if [ -s "$record" ]; then
            "$0" export "$record" --to markdown
            echo
        fi
        echo "$origin"
    } > "$results/comparison.md"
    if [ -s "$record" ]; then "$0" export "$record" --to junit -o "$results/junit.xml"; fi
    if [ "$code" != 0 ]; then fail_junit "$headline" "$2"; fi
    if [ -s "$record" ]; then
        echo "The candidate:"
        widen_log
        "$0" report "$record"
        write_report "$record"
    fi
    exit "$code"
}

# A log has room for whole tables.
widen_log() {
    if [ ! -t 1 ] || [ -n "$columns" ]; then export COLUMNS="${columns:-120}"; fi
}

# Writes the page. How many charts it has is of no interest.
write_report() {
    "$0" report "$@" -o "$results/report.html" 2> "$scratch/messages" || cat "$scratch/messages" >&2
}

# Measures the kernels of both sides, in turns, in one more process, the $1th. Wrong answers (exit code 1), kernels that do not
# compile (2), crashes and hangs (3) are in the records, and the comparison says which are new. Fails without records.
measure() {
    record=$scratch/sides/both.json
    if [ "$1" = 1 ]; then file=--json; else file=--resume; fi
    status=0
    : > "$scratch/measured"
    # shellcheck disable=SC2086
    run "$scratch/measured" "$candidate" "$0" --quiet bench --config "$config" --beside "$baseline/$config" $bench \
        ${allow:+--allow "$allow"} --processes "$1" "$file" "$record" || status=$?
    # Commands of a pull request are named, as elsewhere.
    if [ "$1" = 1 ]; then sed -n '/^running the /p' "$scratch/messages" | sort -u >&2; fi
    sed -n 's/^accepted check: //p' "$scratch/measured" > "$scratch/accepted"
    keep_records
    [ -s "$results/candidate.json" ] && [ -s "$results/baseline.json" ]
}

# Measures the candidate alone.
measure_candidate() {
    # shellcheck disable=SC2086
    run /dev/null "$candidate" "$0" --quiet bench --config "$config" $bench --json "$results/candidate.json" \
        || candidate_status=$?
    cp "$scratch/messages" "$scratch/candidate.messages"
}

keep_records() {
    for side in baseline candidate; do
        if [ -s "$scratch/sides/$side.json" ]; then cp "$scratch/sides/$side.json" "$results/$side.json"; fi
    done
}

# Fails if the configuration of the side $1 has a mistake. A description that only the other side has is gone, or new.
check() {
    if [ "$1" = baseline ]; then folder=$baseline other=$candidate; else folder=$candidate other=$baseline; fi
    status=0
    # shellcheck disable=SC2086
    run /dev/null "$folder" "$0" --quiet bench --config "$config" $bench --dry-run || status=$?
    cp "$scratch/messages" "$scratch/$1.messages"
    # shellcheck disable=SC2086
    if [ "$status" = 2 ] && [ -f "$other/$config" ] && run /dev/null "$folder" "$0" --quiet bench \
        --config "$config" --beside "$other/$config" $bench --dry-run; then
        status=0
        if [ "$1" = candidate ]; then unreadable=$(sed -n 's/; did you mean .*//; s/^error: //p' "$scratch/candidate.messages"); fi
    fi
    [ "$status" = 0 ]
}

# Makes the baseline's submodules from those that are checked out here, as far as these have the commit: a private one may need a
# password to be fetched. Whatever is within them comes from where it always does.
submodules_from_here() {
    modules=$(cd "$(git rev-parse --git-common-dir)" && pwd)/modules
    keys=$(git config --file "$baseline/.gitmodules" --name-only --get-regexp '^submodule\..*\.path$') || return 0
    while read -r key; do
        name=${key#submodule.}
        name=${name%.path}
        path=$(git config --file "$baseline/.gitmodules" --get "$key")
        url=$(git config --get "submodule.$name.url") || continue
        wanted=$(git -C "$baseline" rev-parse --quiet --verify "HEAD:$path") || continue
        git -C "$modules/$name" cat-file -e "$wanted^{commit}" 2> /dev/null || continue
        run "$scratch/messages" "$baseline" git -c protocol.file.allow=always -c "submodule.$name.url=$modules/$name" \
            submodule --quiet update --init -- "$path" || true
        if [ -e "$baseline/$path/.git" ]; then git -C "$baseline/$path" remote set-url origin "$url"; fi
    done <<EOF
$keys
EOF
}

# Succeeds if a case of the side $1 has a time.
is_measured() {
    "$0" export "$results/$1.json" --to jsonl | grep '"median_ns":[0-9]' > /dev/null
}

compare() {
    status=0
    "$0" compare "$results/baseline.json" "$results/candidate.json" ${gate:+--gate "$gate"} \
        ${allow:+--allow "$allow"} ${require_reference:+--require-reference} --min-effect "$min_effect" --measured-by "gpukern compare-commits $named$(echo "$repeated" | sed 's/ --processes [0-9]*//')" "$@" || status=$?
}

# Succeeds if a case has one of the verdicts $1.
has() { grep -E -q "\"verdict\": *\"($1)\"" "$results/comparison.json"; }

compare_to_files() {
    compare --to markdown --junit "$results/junit.xml" --json "$results/comparison.json" \
        > "$scratch/comparison.md" 2> "$scratch/messages"
}

# Ends with the comparison, and with the exit code $2; $1 is what to say first.
finish() {
    code=$2
    # No option accepts what would stop every later change.
    failure=
    if [ -n "$unreadable" ]; then
        failure="$unreadable; put it back, or take it out of $config"
        case $code in 0 | 4) code=1 ;; esac
    fi
    # A reader of either file learns what a reader of the exit code does.
    sed "s/\"exit\": *[0-9]*/\"exit\":$code/" "$results/comparison.json" > "$scratch/comparison.json"
    mv "$scratch/comparison.json" "$results/comparison.json"
    case $code in
        0 | 4) ;;
        *) fail_junit "${1:-$failure}" "$scratch/messages" ;;
    esac
    case $code in
        0) outcome=Passed
            accepts=$(wc -l < "$scratch/accepted")
            if [ "$accepts" -gt 0 ]; then outcome="Passed with $((accepts)) accepted by \`--allow check\`"; fi ;;
        1) outcome=Failed ;;
        4) outcome=Undecided
            # Nobody can do more about a kernel that was wrong before than tell of it.
            if ! has undecided && head -n 1 "$scratch/comparison.md" | grep -q 'on both sides'; then outcome='Wrong before, too'; fi ;;
        *) outcome=Incomplete ;;
    esac
    {
        # Readers of a comment look for this first.
        sed "1s/^\*\*/**$outcome: /; 1q" "$scratch/comparison.md"
        echo
        if [ -n "$1" ]; then printf '**%s**\n\n' "$1"; fi
        if [ -n "$failure" ]; then printf '**%s**\n\n' "$failure"; fi
        if [ -n "$changed" ]; then printf '**This change also edits how answers are checked:** %s\n\n' "$changed"; fi
        if [ -s "$scratch/accepted" ]; then
            printf '**%s**\n\n' "$accepted"
            sed 's/^/    /' "$scratch/accepted"
            echo
        fi
        if [ -n "$gate_changed" ]; then printf '**%s**\n\n' "$gate_changed"; fi
        sed 1d "$scratch/comparison.md"
        if [ -n "$renamed" ]; then printf '\nRenamed: %s\n' "$renamed"; fi
        if [ -n "$own_check" ]; then printf '\n%s %s\n' "$by_own_check" "$own_check"; fi
        if [ -s "$scratch/messages" ]; then sed 's/^/    /' "$scratch/messages"; fi
        # The author of a pull request cannot add an option.
        if [ "$outcome" = Failed ] && [ -n "${GITHUB_ACTIONS:-}${GITLAB_CI:-}" ]; then
            if cat "$scratch/comparison.md" "$scratch/messages" | grep -q -e '--allow'; then
                echo
                echo "\`--allow\` is what a maintainer's label sets: \`kernels-slower\` sets slower, \`checks-change\` check, and" \
                    "\`kernels-change\` gone, buffers and work, unless the workflow calls them otherwise."
            fi
        fi
        echo
        if [ -n "$allow" ]; then printf "Not counted as failures (\`--allow\`): %s.\n\n" "$(echo "$allow" | sed 's/,/, /g')"; fi
        echo "$origin"
    } > "$results/comparison.md"
    widen_log
    if [ -n "$1" ]; then echo "$1"; fi
    if [ -s "$scratch/accepted" ]; then
        echo "$accepted"
        sed 's/^/  /' "$scratch/accepted"
    fi
    if [ -n "$failure" ]; then echo "$failure"; fi
    if is_measured candidate; then
        echo "The candidate:"
        "$0" report "$results/candidate.json"
        echo
    fi
    echo "The candidate, compared with the baseline:"
    compare
    write_report --baseline "$results/baseline.json" --candidate "$results/candidate.json" --min-effect "$min_effect"
    exit "$code"
}

echo "$sides"
: > "$scratch/baseline.messages"
accepted='Accepted by --allow check, because of the checks of this change:'
why=
lost=
unreadable=
run "$scratch/messages" . git worktree add --quiet --detach "$baseline" "$commit" \
    || end "Nothing was compared: git cannot check $base out." "$scratch/messages" 2
if [ ! -f "$baseline/.gitmodules" ]; then
    :
elif submodules_from_here; ! run "$scratch/messages" "$baseline" git submodule --quiet update --init --recursive; then
    why="The submodules of $base cannot be fetched, so there is nothing to compare with."
    lost=true
    cp "$scratch/messages" "$scratch/baseline.messages"
fi
if [ -n "$prepare" ]; then
    progress "$prepare"
    run "$scratch/messages" . sh -c "$prepare" || end "Nothing was compared: \`$prepare\` fails." "$scratch/messages" 2
    cat "$scratch/messages" >&2
    if [ -z "$why" ] && ! run "$scratch/messages" "$baseline" sh -c "$prepare"; then
        why="\`$prepare\` fails at $base, so there is nothing to compare with."
        if git cat-file -e "$commit:$config" 2> /dev/null; then lost=true; fi
        cp "$scratch/messages" "$scratch/baseline.messages"
    fi
fi
if [ -z "$why" ] && [ ! -f "$baseline/$config" ]; then
    why="$base has no $config, so there is nothing to compare with yet."
fi

# Mistakes are found before anything is measured. The candidate's go first: its author can mend them.
check candidate \
    || end "Nothing was compared: gpukern could not measure the candidate." "$scratch/candidate.messages" "$status"
if [ -z "$why" ] && ! check baseline; then
    # Its kernels are there, unlike those of a commit without a configuration.
    why="gpukern could not measure $base, so there is nothing to compare with."
    lost=true
fi

# A wrong answer may be right by a new check: its reviewer has to look.
if [ -z "$why" ]; then
    # shellcheck disable=SC2086
    run "$scratch/listed" "$candidate" "$0" --quiet bench --config "$config" --beside "$baseline/$config" $bench --dry-run \
        ${gate:+--gate "$gate"} || end "Nothing was compared." "$scratch/messages" 2
    listed() { sed -n "s/^$1: //p" "$scratch/listed" | paste -s -d '|' - | sed 's/|/; /g'; }
    changed=$(listed 'changed check')
    renamed=$(listed renamed)
    own_check=$(listed 'own check')
    if [ -n "$changed" ]; then echo "This change also edits how answers are checked: $changed"; fi
    if [ -n "$renamed" ]; then echo "Renamed: $renamed"; fi
    if [ -n "$own_check" ]; then echo "$by_own_check $own_check"; fi
    if [ -n "$gate" ] && git ls-files --error-unmatch -- "$gate" > /dev/null 2>&1 \
        && ! git diff --quiet "$commit" -- "$gate"; then
        gate_changed="This change also edits the gate that judges it."
        echo "$gate_changed"
    fi
fi

# The first process shows whether more can decide anything.
progress "process 1 of $processes"
if [ -n "$why" ]; then
    measure_candidate
    # What fails on both sides is said once, of the candidate.
    if cmp -s "$scratch/candidate.messages" "$scratch/baseline.messages"; then : > "$scratch/baseline.messages"; fi
    # The kernels of the baseline are there, and nobody knows whether those of the candidate are slower.
    if [ -n "$lost" ] && [ "$candidate_status" = 0 ]; then
        case ,$allow, in
            *,gone,*) ;;
            *) end "$why If that is intended, add --allow gone." "$scratch/baseline.messages" 1 ;;
        esac
    fi
    end "$why" "$scratch/baseline.messages" "$candidate_status"
fi
measure 1 || end "Nothing was compared: gpukern could not measure the kernels." "$scratch/messages" "$status"
candidate_status=$status
if ! is_measured baseline; then
    # Why not, of the baseline's kernels, which have this in their names beside those of the candidate.
    sed -n 's/@baseline//p' "$scratch/messages" > "$scratch/baseline.messages"
    if [ "$candidate_status" = 0 ]; then candidate_status=4; fi
    end "No kernel could be timed at $base, so there is nothing to compare with." "$scratch/baseline.messages" \
        "$candidate_status"
fi
compare_to_files
case $status in
    0 | 1 | 4) ;;
    *) end "Nothing was compared." "$scratch/messages" "$status" ;;
esac

# Measures processes up to the $1th, or until one ends without a result, as for lack of memory or of space: $ended says how.
measure_up_to() {
    while [ "$process" -lt "$1" ] && [ -z "$ended" ]; do
        process=$((process + 1))
        progress "process $process of $1"
        before=$(cksum < "$scratch/sides/both.json")
        measure "$process" || true
        reason=
        if [ "$status" -gt 128 ]; then
            reason="signal $((status - 128))"
        elif [ "$(cksum < "$scratch/sides/both.json")" = "$before" ]; then
            reason=$(sed -n 's/^error: //p' "$scratch/messages" | head -n 1)
            # On a full disk, there are no messages either.
            [ -n "$reason" ] || reason="it wrote nothing (exit code $status; is the disk full?)"
        fi
        if [ -n "$reason" ]; then ended="Process $process of $1 ended without a result: $reason."; fi
    done
}

process=1
ended=
# More processes decide nothing where no kernel changed, and if a GPU is so quiet that all are the same already.
if [ "$status" != 0 ] && has 'slower|faster|undecided'; then
    measure_up_to "$processes"
    compare_to_files
fi
# If a case is slower, the job fails, whatever the undecided ones are. If one fails by a mistake on both sides, such as a
# reference that is not installed, more processes do not help.
if [ "$status" = 4 ] && [ "$candidate_status" = 2 ]; then
    finish "A case cannot run on either side until a mistake is fixed." 2
elif [ "$status" = 4 ] && [ -z "$ended" ] && has undecided; then
    progress "undecided cases: more processes"
    measure_up_to $((2 * processes))
    compare_to_files
fi
if [ -n "$ended" ] && [ "$status" != 1 ]; then status=3; fi
finish "$ended" "$status"
