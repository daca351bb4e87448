#!/usr/bin/env bash
# The browser tests drive a real Chromium. Installed where that is allowed; elsewhere those tests skip with the reason.
set -u
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
fi
exit 0
