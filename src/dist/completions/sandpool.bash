# bash completion for sandpool; made by 'sandpool completion bash'
_sandpool() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    -s|--socket|--request-timeout) ((i++)) ;;
    -*) ;;
    *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command:$prev in
    *:-s|*:--socket|doctor:--config) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    acquire:--network) words="none host nat" ;;
    snapshot:--format) words="sandpool oci" ;;
    ls:--state) words="starting blank leased parked deleting hibernated" ;;
    ls:--by) words="user principal profile" ;;
    ls:--sort) words="age leased idle user principal profile state" ;;
    token:--scope) words="read use operate read,use" ;;
  esac
  if [[ -z $words ]]; then
    case $command in
    '') words='acquire run exec shell jobs logs kill cp port-forward snapshot fork release network renew get ls destroy pool top profile quote budget token usage events why backup pause resume drain reconcile reload doctor version completion help --socket --json --request-timeout --help --version' ;;
    acquire) words=' --user --profile --id --wait --ttl --idle --snapshot --metadata --env --mount --memory --cpus --pids --label --network --export --quiet --verbose --socket --json --request-timeout --help --version' ;;
    run) words=' --profile --thread --user --env --cwd --as --timeout --keep --tty --no-stdin --verbose --socket --json --request-timeout --help --version' ;;
    exec) words=' --env --cwd --as --user --interactive --tty --timeout --detach --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    shell) words=' --env --cwd --as --user --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    jobs) words=' --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    logs) words=' --follow --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    kill) words=' --signal --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    cp) words=' --quiet --socket --json --request-timeout --help --version' ;;
    port-forward) words=' --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    snapshot) words='create ls rm export import --user --name --all --format --profile --any-base --quiet --socket --json --request-timeout --help --version' ;;
    fork) words=' --user --count --thread --wait --ttl --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    release) words=' --user --generation --destroy --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    network) words=' --user --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    renew) words=' --user --generation --ttl --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    get) words=' --user --alive --stats --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    ls) words=' --state --profile --user --thread --principal --leased-for --idle-for --leaking --by --sort --limit --quiet --socket --json --request-timeout --help --version' ;;
    destroy) words=' --user --generation --quick --all --where --dry-run --yes --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    pool) words=' --socket --json --request-timeout --help --version' ;;
    top) words=' --once --interval --socket --json --request-timeout --help --version' ;;
    profile) words='ls show --socket --json --request-timeout --help --version' ;;
    quote) words=' --for --socket --json --request-timeout --help --version' ;;
    budget) words='ls show set credit --socket --json --request-timeout --help --version' ;;
    token) words='ls create revoke --scope --user --profile --id --ttl --socket --json --request-timeout --help --version' ;;
    usage) words=' --by --intervals --since --until --user --thread --id --profile --principal --cursor --csv --socket --json --request-timeout --help --version' ;;
    events) words=' --since --until --event --box --id --user --thread --limit --no-follow --socket --json --request-timeout --help --version' ;;
    why) words=' --user --since --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    backup) words=' --socket --json --request-timeout --help --version' ;;
    pause) words=' --user --profile --message --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    resume) words=' --user --profile --socket --json --request-timeout --help --version'
      [[ $cur == -* ]] || words+=" $(sandpool ls --quiet 2>/dev/null)" ;;
    drain) words=' --profile --message --evict-parked --socket --json --request-timeout --help --version' ;;
    reconcile) words=' --socket --json --request-timeout --help --version' ;;
    reload) words=' --socket --json --request-timeout --help --version' ;;
    doctor) words=' --config --socket --json --request-timeout --help --version' ;;
    version) words=' --socket --json --request-timeout --help --version' ;;
    completion) words='bash zsh fish --socket --json --request-timeout --help --version' ;;
    help) words='acquire run exec shell jobs logs kill cp port-forward snapshot fork release network renew get ls destroy pool top profile quote budget token usage events why backup pause resume drain reconcile reload doctor version completion help --socket --json --request-timeout --help --version' ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _sandpool sandpool
