// Sign in with the key in the link's fragment: remove it from the address, and submit it with the form.
const key = decodeURIComponent(location.hash.slice(1));
if (key) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("key").value = key;
  document.getElementById("enter").submit();
}
