# shellcheck shell=bash disable=SC2154  # sourced by dev, which has the functions and names used here
# ./dev docs: the pages of docs/, and the references of Python, C++ and the programs, as one site in
# build/docs/html. What Doxygen or Sphinx warns of is an error, and so is a link that leads nowhere.

readonly docs_packages=(doxygen scdoc mandoc)
site=$root/build/docs

# From the comments of the public headers, as XML, to $site/doxygen.
docs_headers() {
  rm -rf "$site/doxygen" && mkdir -p "$site/doxygen" && doxygen docs/site/Doxyfile
}

# The whole site each time, so that nothing of the last one is in it.
docs_pages() {
  rm -rf "$site/html" && "$python" -m sphinx -b html -c docs/site -d "$site/doctrees" \
    -E -W -n --keep-going -j auto -q . "$site/html"
}

docs() {
  (($# == 0)) || die "docs does not know '$1' (see ./dev help)" 2
  setup docs
  ensure_packages "${docs_packages[@]}"
  build_targets release memlease_package
  install_python release
  step "docs: headers" docs_headers
  step "docs: pages" docs_pages
  step "docs: links" "$python" docs/site/links.py "$site/html"
  tail -n 1 "$last_log"
  say "Made: build/docs/html/index.html"
}
