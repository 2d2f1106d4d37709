"""``heads`` and ``removed``, by which engines without Silt find what is live; kept behind ``messages``. Does IO."""
