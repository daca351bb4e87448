"""What a test knows of the page it visits."""

from __future__ import annotations

from typing import Any

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


class Visit:
    """One page in a browser of its own, with all that went wrong and all that was asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self._hear(message))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def asked_outside(self, *own: str) -> list[str]:
        """Requests that left the page's own place."""
        return [url for url in self.requests if not url.startswith((*own, "data:", "blob:"))]
